"""Invariants: statements that are true in every simulated run, unless the product has an error.

Reading order: `view` (what an invariant reads), `commit_checks` (checked at every commit and call), `arithmetic`
(hashes, budgets and statuses computed independently of the product), `catalog` (the list of the invariants that are
checked at the end of a run, when the system is idle), then the invariants by subject: `records`, `streams`, `nodes`,
`node_clocks`, `cases`, `causation`, `coverage`, `repairs`, `volumes`, `group_owner`, `capacity`, `incidents`,
`domain_faults` with `lost_links`, `findings`, `pages`.
"""
