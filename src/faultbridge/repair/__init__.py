"""Repair: repairs and verifies the nodes of queued cases, and applies everything that limits repairs.

Read in this order:

- `isolate`: keeps new work off a faulty node. `isolate_many` does this for many nodes with few calls. `isolation`
  selects the nodes, `isolation` has the state changes, and `isolation` delays the calls to a failing orchestrator.
- `dispatch`: admits queued cases and starts their executions. `admission` has the state changes of one case.
  `dispatch` records decisions that start no repair. `dispatch` changes many nodes in few transactions.
- `controls`: pause, circuit breakers, budget and holds of a cluster. `breakers` updates breakers and budget.
- `cluster_status`: computes the status of a cluster from its nodes and the report of its provider.
- `case_orders`, `node_orders`: operators' orders about cases and nodes. `case_orders` ends the conditions that orders
  opened.

The other folders:

- `attempt`: one attempt to repair a node, and what its steps have in common.
- `steps`: one module per state of the Step Functions state machine.
- `successor`: finds capacity for the instance that replaces another, launches it and claims it for the node.
- `volumes`: moves EBS volumes to the successor.
- `spares`: the pool of verified instances that wait for a case.

docs/at-most-one.md explains why no instance is released twice. Tests: tests/repair and tests/scenarios.
"""
