"""Fold: merges observations into the conditions (active faults) of one node.

No record is stored for deduplication: the node's state has the times of the last reports, by which duplicates and late
observations are recognized. Reading order: `changes` (input and output), `fold` (the entry point), `node_conditions`
and `condition_updates` (one report), `claims`, `attribution` (unspecific and late reports), `expire`, `daily_notes`,
`capacity`, and `write_filter` (whether a state must be stored). Tests: tests/pipeline, above all test_fold.py and
test_watermarks.py.
"""
