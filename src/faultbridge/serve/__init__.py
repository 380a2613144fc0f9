"""Serve: the services of the Lambda functions, and how one function is wired.

Read in this order:

- `application`: the installation of a Lambda function, built once a process from environment variables.
- `entrypoints`: one module a function; `functions/<verb>/handler.py` calls it.
- `wiring`: makes the services of one function from ports and settings, each at its first use.
- `ingest`: raw records to committed node states.
- `gateway`: webhooks and log subscriptions onto the queue.
- `pager`: events to pages, reminders and summaries.
- `ops`: the sweep of each minute, the reaction to new entries, the backlog, metrics.
- `api`: the HTTP API without its server.
- `casefile`: the case file of a repair, which proves itself to a reader without a stack.
- `console`, `presentation`: the pages of the console as HTML, and what a page shows as plain data.
"""
