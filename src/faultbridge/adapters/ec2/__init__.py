"""EC2 instances: start, list, check, restart and verify them; the other groups of AWS are `hyperpod`."""
