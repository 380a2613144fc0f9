"""Lambda entry points: each converts the event of a Lambda function to service calls.

Each entry point also prints metrics.

- Raw records: `intake` accepts raw records from webhooks and log subscriptions. `ingest` records them.
- New entries of the table: `publish` sends entries to the bus and the archive. `react` acts on entries.
- Repairs: `replacement` runs one step of an attempt.
- Operators: `pager` sends pages, `timeline` serves the HTTP API, and `console` serves the web console. `http_event`
  reads the HTTP requests, `lambda_events` all other events.
- On a schedule: `sweep`, `inventory` and `archive`.
"""
