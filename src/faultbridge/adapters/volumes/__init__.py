"""Detach EBS volumes from instances, and attach them to others.

Read in this order:

- `ec2_volumes`: implements `Volumes` for EC2
- `hyperpod_volumes`: implements `Volumes` for HyperPod clusters on EKS
"""
