"""Correlate: finds one shared cause behind the faults of many nodes. All modules are pure.

In reading order:

- `snapshot`: the affected nodes of a cluster, and the sizes of its failure domains.
- `chance`: whether a number of faults is unlikely, given the history of a failure domain (Poisson).
- `shared_causes`: failure domains with an unlikely number of affected nodes.
- `exempt_nodes`: nodes of an incident past its maximum age. They wait for no further incident of its fault family.
- `openings`: which incidents are opened, extended or merged because of shared causes.
- `life_cycle`: how incidents grow, shrink, expire and close.
- `held_cases`: how a case waits for an incident and how it is released.

The package `incidents` applies these rules to the table. Tests: tests/pipeline/correlate.
"""
