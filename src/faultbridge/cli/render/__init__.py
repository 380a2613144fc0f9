"""Output of the command line, for people and for scripts.

Reading order:

- `output`: prints texts, lists and documents, with control characters shown as text. Prints growing tables and
  progress. Prints log records
- `tables`, `output`: fit tables and texts to a terminal. Draws a full screen
- `cli.commands.options`: the options for the output format
- `columns`: the columns of the tables. Prints entries while they are recorded
- `cli.commands.records.timeline`: shows the registration of many nodes as one row
- `observations`: converts decoded input to JSON
- `times`: parses times
"""
