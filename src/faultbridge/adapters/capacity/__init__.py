"""Capacity: reads from AWS, before an instance is released, whether there is capacity for its successor.

Read in this order:

- `ec2_capacity`: the answers of EC2 about reservations and capacity blocks

The providers in `adapters.compute` call it for each source of capacity that the policy lists.
"""
