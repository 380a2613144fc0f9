"""Kubernetes: the API of EKS clusters, reached as an AWS identity."""
