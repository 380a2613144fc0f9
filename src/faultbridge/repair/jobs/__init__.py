"""Jobs: records which training jobs run on which nodes, and which faults affected them.

The start and end of a job, and the faults that affect it, are entries of the cluster's own stream. Read in this order:
`jobs` (start, end, faults, and the ids of jobs in the states of nodes), `reports` (documents of schedulers), `changes`
(stores a job with its entry), `job_impact` (also which jobs may resume), `progress` (heartbeats, stalls, losses),
`callbacks` and `verdicts`. `storage.jobs` defines the items. Tests: tests/jobs.
"""
