"""The decoder of NVSentinel.

`event` parses health events, `node_conditions` reads them from conditions of a Kubernetes node, and `health_events`
converts them to faults.
"""
