"""Policy files: YAML from operators, validated and converted to the document in the table.

Reading order: `schema` (the fields; `fields.yaml` has meanings and examples), `parser` (reads, writes and explains
errors), `weakened` (differences, and what a new policy weakens). Tests: tests/policyfile.
"""
