"""Repair: repairs and verifies the nodes of queued cases, and applies everything that limits repairs.

Read in this order: `isolate` keeps new work off a faulty node (`isolation_permits` has the budget). `dispatch` admits
queued cases and starts their executions. `attempt` is one attempt to repair a node; `steps` has its steps, in the
order of the state machine; `successor` finds, launches and claims the next instance; `volumes` moves EBS volumes;
`spares` is the pool of verified instances. `controls` has pause, breakers, budget and holds, which `breakers` updates;
`incidents` lets repairs wait for a shared cause; `cluster_status` sums up a cluster. `case_orders` and `node_orders`
are operators' orders.

docs/at-most-one.md explains why no instance is released twice. Tests: tests/repair and tests/scenarios.
"""
