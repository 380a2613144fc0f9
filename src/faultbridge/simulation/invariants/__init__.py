"""Invariants: what must hold in every simulated run.

Reading order: `view` (what an invariant reads), `commit_checks` (checked at every commit and call), `arithmetic`
(hashes, budgets and statuses computed independently of the product), `catalog` (the list of the invariants checked once
the system is at rest), then the invariants by subject: `records`, `streams`, `nodes`, `node_clocks`, `cases`,
`causation`, `coverage`, `repairs`, `volumes`, `group_owner`, `capacity`, `incidents`, `domain_faults`, `findings`,
`pages`.
"""
