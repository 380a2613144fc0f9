"""Jobs: records which training jobs run on which nodes, and which faults affected them.

The start and end of a job, and the faults that affect it, are entries of the cluster's own stream. Read in this order:

- `jobs`: records the changes of jobs: start, end, a fault that affects the job, and `resumable`. Finds the nodes of a
  job by their names, and the ranks on each node. Stores the ids of running jobs in the states of their nodes, so that
  events of a node name its jobs.
- `reports`: validates and records the JSON documents in which schedulers report a start, an end or a training step,
  from the HTTP API or in raw records.
- `job_impact`: records the harmful conditions of a node on the jobs that run there or ended recently.
- `progress`: stores heartbeats of jobs, and records stalls and abnormal loss values.
- `resume`: finds the ended jobs that may resume, because their faulty nodes returned, were replaced or were retired.
- `callbacks`: notifies webhooks and schedulers that a job may resume.
- `verdicts`: records why a job died and whether it may restart.
- `changes`: stores a job together with the entry of its change. The changes of a job, and the data of their entries.

`storage.jobs` defines the items in which jobs are stored. The command `faultbridge job` records jobs from a scheduler's
hooks.

Tests: tests/jobs.
"""
