"""Capacity: asks AWS, before an instance is released, whether its successor has a place.

Read in this order:

- `ec2_capacity`: the answers of EC2 about reservations and capacity blocks

A provider in `adapters.compute` asks it for each source of capacity in the policy.
"""
