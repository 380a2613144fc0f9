"""Lambda entry points: each converts the event of a Lambda function to service calls.

Each entry point also prints metrics.

- Raw records: `intake` accepts them from webhooks and log subscriptions. `ingest` records them.
- New entries of the table: `publish` sends them to the bus and the archive, and `react` acts on them. `table_stream`
  converts them for both.
- Repairs: `replacement` runs one step of an attempt.
- Operators: `pager` sends pages, `timeline` serves the HTTP API, and `console` serves the web console. `http_event`
  reads the HTTP requests.
- On a schedule: `sweep`, `inventory` and `archive`.
"""
