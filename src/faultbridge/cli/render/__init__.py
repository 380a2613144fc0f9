"""Output of the command line, for people and for scripts.

Reading order: `output` (texts, lists, documents and progress, without control characters), `tables` (tables and full
screens that fit a terminal), `columns` (the columns of the tables), `times` (reads and writes times).
"""
