"""The jobs: which training jobs run on which nodes, and which faults they were affected by.

The start and end of a job, and each fault of its nodes in between, are entries of the cluster's own stream.
Read in this order:

- `jobs`: records the start and end of jobs, and the faults that affect them.
- `job_impact`: finds the worst active fault of a node and records it on the jobs that run there.

How jobs are stored is in `storage.jobs`; `faultbridge job` records them from a scheduler's hooks.

Tests: tests/jobs.
"""
