"""Ports: interfaces (protocols) to the systems outside the process.

`adapters/` implements them on AWS, Kubernetes and Slurm, `simulation/fakes` implements them in memory, and
`tests/contracts` tests the adapters and the fakes with the same tests. Every call may raise `Transient` (retry later)
or `Misconfigured` (an operator must fix it). A docstring names any other error.

Read in this order:

- `table`: the clock and the one DynamoDB table. The data that Faultbridge passes to an adapter from another Python
  package
- `objects`: raw records, evidence, the archive and the retention-locked anchors
- `messaging`: the event bus, the queues, delivery receipts. Executions of repair attempts. Notify operators
- `compute`: replace, launch, reset and reboot instances. Verify instances and collect their logs
- `presence`: whether an instance exists, and its status checks
- `orchestrator`: detach and attach EBS volumes. Cordon and drain nodes
- `inventory`: list the instances of a provider's groups and the nodes of an orchestrator
- `object_watch`: list and watch the objects of a Kubernetes cluster
- `callbacks`: notify the owner or the scheduler of a job that may resume
- `installation`: all ports of one installation
"""
