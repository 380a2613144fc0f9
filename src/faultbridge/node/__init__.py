"""Node: what runs on nodes and in Kubernetes clusters, and sends raw records.

- `agent`: follows the kernel log, runs probes, and delivers records also after days without a network. It needs only
  the standard library.
- `collector`: follows nodes, pods and events of one Kubernetes cluster.
"""
