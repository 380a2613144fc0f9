"""Fold: merges observations into the conditions (active faults) of one node.

No record is stored for deduplication. The state of the node contains the times of the last reports, by which duplicates
and late observations are recognized.

Reading order:

- `changes`: input and output of the stage.
- `fold`: the entry point: applies observations in the order of their times. Records the devices that an instance
  shows for the first time.
- `node_conditions`: the conditions of one node while observations are applied; it ignores old and repeated reports.
- `condition_updates`: how one report creates, repeats or merges a condition.
- `device_names`: renames what is stored about a device once the device list identifies it.
- `capacity`: how many changes a commit and how many bytes a node may contain.
- `daily_notes`: which informational and late faults are recorded each day.
- `claims`: the life of a condition that only unproven senders report.
- `attribution`: assigns an unspecific report ("node unhealthy") to the specific condition behind it, and a late one
  to a condition that ended.
- `expire`: ends conditions by time, reboot, repair or replacement.
- `write_filter`: decides whether a changed state must be stored.

Tests: tests/pipeline, above all test_fold.py and test_watermarks.py.
"""
