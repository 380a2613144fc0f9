"""Commands that work without a stack and without credentials.

Only `explain` can also read and record data of a stack. Reading order: `decode` (with the list of sources), `catalog`,
`schema`, `rule`, `simulate`, `explain`, `mechanism`.
"""
