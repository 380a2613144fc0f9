"""Policy files: YAML from operators, which is validated and converted to the document in the table.

Reading order:

- `schema`: the fields with their allowed values. `fields.yaml` has the meaning and an example of each field.
- `parser`: the JSON Schema for editors and for error texts. Texts for error messages about what a field must contain.
  `read_policy` and `write_policy`; the error for an invalid file lists all invalid fields.
- `weakened`: every value of a policy, set by its file or by a default, and the differences between two policies. The
  limits, breakers and rules that a new policy weakens or removes.

Tests: tests/policyfile.
"""
