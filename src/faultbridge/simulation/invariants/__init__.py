"""Invariants: statements that must be true in every simulated run.

Reading order: `view` (what an invariant reads), `commit_checks` (checked at every commit and call), `arithmetic`
(hashes, budgets and statuses computed independently of the product), `catalog` (the list of the invariants that are
checked once nothing changes any more), then the invariants by subject: `records`, `streams`, `nodes`, `node_clocks`,
`cases`, `causation`, `coverage`, `repairs`, `volumes`, `group_owner`, `capacity`, `incidents`, `domain_faults`,
`findings`, `pages`.
"""
