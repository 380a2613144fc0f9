"""Output of the command line, for people and for scripts.

Reading order: `output` prints text without the effects of its control characters, lists and documents, `tables` fits a
table to a terminal, `format_options` holds the options for the output format, `columns` defines the tables of clusters,
nodes, cases and entries, `observations` turns decoded input into JSON, `live_output` prints growing tables and
progress, `entries` prints entries while they are recorded, and `times` parses times.
"""
