"""Exports: the documents of the HTTP API for Prometheus, OpenTelemetry and assistants; all of them only read.

`api_client` reads the API, `metrics` converts its documents to metrics, `otlp_logs` sends entries as logs, and
`tools` answers questions of an assistant (MCP). Only `metrics`, `otlp_logs` and `tools` need the optional packages.
"""
