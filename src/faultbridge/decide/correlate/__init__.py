"""Correlate: finds one shared cause behind the faults of many nodes. All modules are pure.

Reading order: `shared_causes` (domains with an unlikely number of affected nodes), `life_cycle` (how incidents open,
grow, expire and close), `origins` (the fault that explains the others), `held_cases` (how a case waits for one).
`repair/incidents` applies the rules. Tests: tests/pipeline/correlate.
"""
