"""A fake Kubernetes API: nodes, pods, evictions and disruption budgets, with the documented behavior.

`cluster` contains the state of one cluster, `api` answers requests over WSGI, and `gaps.eks_endpoints` creates a
cluster for each EKS cluster of the compute plane.
"""

PATH = "/faultbridge/kubernetes/"
"""The path under which the compute plane serves the API of each EKS cluster, followed by the cluster's name."""
