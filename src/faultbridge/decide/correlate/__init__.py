"""Correlate: finds one shared cause behind the faults of many nodes. All modules are pure.

In reading order:

- `shared_causes`: the affected nodes of a cluster, and the sizes of its failure domains. Whether a number of faults
  is unlikely, given the history of a failure domain (Poisson). Failure domains with an unlikely number of affected
  nodes.
- `life_cycle`: nodes of an incident past its maximum age. They wait for no further incident of its fault family.
  Which incidents are opened, extended or merged because of shared causes. How incidents grow, shrink, expire and
  close.
- `held_cases`: how a case waits for an incident and how it is released.

The package `incidents` applies these rules to the table. Tests: tests/pipeline/correlate.
"""
