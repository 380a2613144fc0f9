"""The decoder of NVSentinel, NVIDIA's health monitoring for Kubernetes.

`event` parses health events, `node_conditions` reads them from the conditions of a Kubernetes node, and `health_events`
converts them to faults.
"""
