"""Output of the command line, for people and for scripts.

Reading order:

- `output`: prints texts, lists and documents, with control characters shown as text
- `tables`, `wrap`: fit tables and texts to a terminal
- `format_options`: the options for the output format
- `columns`: the columns of the tables
- `registrations`: shows the registration of many nodes as one row
- `observations`: converts decoded input to JSON
- `live_output`: prints growing tables and progress
- `entries`: prints entries while they are recorded
- `screen`: draws a full screen
- `log_lines`: prints log records
- `times`: parses times
"""
