"""API: the HTTP API of the timeline, without the HTTP server.

Read in this order:

- `routes`: every route as data, with its parameters and handler
- `requests`: a request and its caller; reads parameters and checks their limits. Limits and pagination tokens of list
  results. Reads the bodies of requests that contain an operator's order
- `handlers`: the handlers of clusters, nodes, cases, incidents, entries, streams and rejected records. The handlers
  of devices and findings, and of jobs
- `problems`: errors as problem documents (RFC 9457)

The classes of responses are in `repair.registry`: `documents`, `job_views`, `hardware_documents`. `infra.docs.openapi`
writes the OpenAPI description from them.

`faultbridge.serve.entrypoints.timeline` serves these routes. Tests: tests/api.
"""
