"""Output of the command line, for people and for scripts.

Reading order: `safe_print` prints text without the effects of its control characters, `output` prints tables and JSON,
`columns` defines the tables of clusters, nodes, cases and entries, `observations` turns decoded input into JSON,
`live_output` prints growing tables and progress, `times` parses times.
"""
