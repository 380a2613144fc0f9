"""Volumes: detach EBS volumes from instances, and attach them.

Read in this order:

- `ec2_volumes`: the Volumes port for EC2
- `hyperpod_volumes`: the Volumes port for HyperPod clusters on EKS
"""
