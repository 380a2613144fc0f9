"""Operations: the recurring work of an installation, and reports about the installation itself.

Read in this order:

- `react`: updates and repairs the nodes and clusters that have new entries, seconds after each entry.
- `sweep`: each minute, performs due work, and work that was interrupted or whose trigger was lost. Chooses the
  clusters and the partitions of waiting work that one sweep reads, and their order. The steps of a sweep for one
  cluster, in their order. Ends the expired waiting periods, approval requests and conditions of a node. The result
  and the failures of a sweep, and the time limit of each of its parts. Finds nodes whose postponed case may open now,
  because their exclusion from repairs ended early.
- `missing_heartbeats`: reports overdue heartbeats, unless no records arrive at all. Probes whether the instance of a
  node without heartbeats still exists and works.
- `claim_checks`: checks claims about nodes with running work, by what their instances show.
- `backlog`: counts the waiting work, and states since when it waits and whether that is too long.
- `metrics`: computes counts and durations from published entries, and gauges from the number of nodes by status.
- `erase`: deletes a cluster and its nodes from the table.

The docstrings of `react` and `sweep` list their steps in order. Tests: `tests/ops`.
"""
