"""History: what happened to one device or one node over time, read from the timeline.

- `device_history`: where a device was, its faults and repairs, and which devices or slots have repeated faults.
- `node_history`: the instances and devices of a node over time, with their faults and cases.

Tests: tests/cli/test_device.py, tests/api/test_hardware.py.
"""
