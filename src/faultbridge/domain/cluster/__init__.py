"""Domain of a cluster: everything that concerns many nodes at once.

Reading order:

- `config`: the registration of a cluster: its systems, its mode and who owns its repairs.
- `state`: the recorded status of a cluster, its repair slots and its repair queue.
- `provider_status`: what a provider reports about the whole cluster and its groups.
- `breakers`: circuit breakers that stop repairs when too many nodes fail at once.
- `failure_domains`: what several nodes share and lose together.
- `incidents`: one shared cause behind the faults of many nodes.
- `group_updates`: groups that their owner updates, and how long repairs wait for that.
- `jobs`, `progress`, `ranks`: training jobs, their steps and losses, and the ranks of their nodes.
- `spares`, `capacity_sources`: instances that are verified in advance, and where successors come from.
- `volumes`: EBS volumes that move from an instance to its successor.
"""
