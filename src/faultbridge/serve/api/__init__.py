"""API: the HTTP API of the timeline, without the HTTP server.

Read in this order:

- `routes`: every route as data, with its parameters and its handler
- `requests`: a request and its caller; reads parameters and checks their limits. Limits and pagination tokens of list
  results
- `problems`: errors as problem documents (RFC 9457)

The classes of responses are in `repair.registry`: `documents`, `job_views`, `hardware_documents`. `infra.docs.openapi`
writes the OpenAPI description from them.

`faultbridge.serve.entrypoints.timeline` serves these routes. Tests: tests/api.
"""
