"""Output of the command line, for people and for scripts.

Reading order: `output` prints text, tables and JSON without the effects of control characters, `columns` defines the
tables of clusters, nodes, cases and entries, `observations` turns decoded input into JSON, `live_output` prints growing
tables and progress, `times` parses times.
"""
