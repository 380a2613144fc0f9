"""A small Kubernetes API (fake): nodes, pods, evictions and disruption budgets as the documented contract has them."""
