"""Correlate: finds one shared cause behind the faults of many nodes. All modules are pure.

In reading order:

- `snapshot`: the affected nodes of a cluster, and the sizes of its failure domains.
- `chance`: whether so many faults are unlikely by the history of a failure domain (Poisson).
- `shared_causes`: failure domains with an unlikely number of affected nodes; the narrowest sufficient one is used.
- `exempt_nodes`: nodes whose repairs an incident delayed long enough; no further incident of its family delays them.
- `openings`: which incidents are opened, extended or merged because of shared causes.
- `life_cycle`: how incidents grow, shrink, expire and close.
- `held_cases`: how a case waits for an incident and how it is released.

The package `incidents` applies them to the table. Tests: tests/pipeline/correlate.
"""
