"""Nodes, pods and Jobs of EKS clusters through the Kubernetes API.

Import only `orchestrator` at module level. The other modules need lightkube, which is in a Lambda layer that only some
functions have: `client` (calls the API), `nodes` (isolates, releases, drains), `object_watch` (for the collector).
"""
