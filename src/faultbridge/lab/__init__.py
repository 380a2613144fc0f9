"""Lab: replays months of a fleet under a policy and compares policies, standard library only except `tuning`.

Reading order:

- `trace`: reads a published trace of faults, and splits it into parts.
- `fault_process`: generates the faults of any number of hosts from a trace.
- `fit`: the statistics by which a generated process is compared with its trace.

Nothing here runs in Lambda. Tests: tests/lab.
"""
