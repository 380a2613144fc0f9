"""Operations: the work that keeps an installation running, and what it reports about itself.

Reading order:

- `react`: processes the nodes and clusters that have new entries, seconds after each entry.
- `sweep`: performs, each minute, the work that is due and the work that was not finished or whose trigger was lost.
- `sweep_plan`: the clusters and the partitions of waiting work that a sweep reads, in the order of a minute.
- `cluster_steps`: the steps of a sweep for one cluster, in their order.
- `tick_node`: ends the waiting periods, delays and conditions of a node whose time is over.
- `sweep_result`: what a sweep did, what failed, and the time that a part may take.
- `missing_heartbeats`: reports overdue heartbeats, unless no records arrive at all.
- `silent_instances`: probes whether the instance of a silent node still exists.
- `postponed_cases`: finds the nodes whose postponed case may be opened now: their exclusion from repairs ended early.
- `failures`: collects the errors of the parts of one run, so that a failed part does not stop the others.
- `backlog`: lists the work that waits, since when, and whether that is too long.
- `required_orders`: lists the nodes and cases that wait for an operator's command, with the command.
- `metrics`: counts and durations from published entries, and gauges of nodes by status.
- `erase`: deletes everything that the table stores about a cluster.

Both `react` and `sweep` list in their docstrings what they do, in order. Tests: `tests/ops`.
"""
