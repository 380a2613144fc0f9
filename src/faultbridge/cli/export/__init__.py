"""Exports: the documents of the HTTP API for Prometheus, OpenTelemetry and assistants; all of them only read.

`api_client` reads the API, `metrics` converts its documents to metrics and sends entries as logs, and `tools` answers
questions of an assistant (MCP). Only `metrics` and `tools` need the optional packages.
"""
