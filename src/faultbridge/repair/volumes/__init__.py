"""Volumes: moves the EBS volumes that the policy names from the old instance to its successor.

Read in this order:

- `detach`: records the volumes and detaches them. This happens before the intent, so the old instance still exists.
- `zones`: refuses a repair if the successor could not attach the volumes.
- `escalation`: escalates the case to an operator if volumes cannot move.
- `attach`: attaches the volumes to the node's current instance before the node returns to service.

`NodeState.moving_volumes` is written before the first call that detaches a volume, so that no volume is lost in a
crash. Each step reads the current attachments before it acts.

Tests: tests/scenarios/repair/test_volumes.py, tests/contracts/test_volumes.py and tests/simulation/test_volumes.py.
"""
