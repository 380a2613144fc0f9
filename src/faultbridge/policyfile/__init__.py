"""Policy files: YAML from operators, validated and converted to the document in the table.

Reading order: `schema` (fields, limits and durations), `parser` (`read_policy` and `write_policy`, with all problems).
"""
