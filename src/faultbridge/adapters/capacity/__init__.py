"""Check in AWS, before an instance is released, whether there is capacity for its successor.

Read in this order:

- `ec2_capacity`: capacity reservations and capacity blocks of EC2

The EC2 providers in `adapters.compute` call `Ec2Capacity.ask` for the sources of capacity that the policy lists, except
for on-demand capacity.
"""
