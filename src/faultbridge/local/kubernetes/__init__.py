"""A small Kubernetes API (fake): nodes, pods, evictions and disruption budgets as the documented contract has them."""

PATH = "/faultbridge/kubernetes/"
"""Under which the compute plane serves the APIs of its EKS clusters, each by its name."""
