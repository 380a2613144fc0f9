"""Output of the command line, for people and for scripts.

- `output`: texts, lists and documents without control characters; growing tables, progress, log records - `tables`:
fits tables to a terminal, and draws a full screen - `columns`: the columns of the tables - `observations`: decoded
input as JSON; `times`: reads and writes times
"""
