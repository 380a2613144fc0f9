"""Lambda entry points: each one converts the event of a Lambda function to service calls.

Each call prints one line of metrics. In the order of the data: `intake` (webhooks, log subscriptions), `ingest` (raw
records), `table_stream` with `publish` and `react` (new entries), `replacement` (repair steps), `pager`, `http_event`
with `timeline` (HTTP API) and `console`. On a schedule: `sweep`, `inventory`, `archive`.
"""
