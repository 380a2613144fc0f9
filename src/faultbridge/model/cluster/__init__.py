"""Domain of a cluster: everything that concerns many nodes at once.

Reading order:

- `config`: the registration of a cluster: its systems, its mode and who owns its repairs. What several nodes share
  and lose together. Groups that their owner updates, and how long repairs wait for that.
- `state`: the recorded status of a cluster, its repair slots and its repair queue. What a provider reports about the
  whole cluster and its groups. Circuit breakers that stop repairs when too many nodes fail at once.
- `incidents`: one shared cause behind the faults of many nodes.
- `jobs`: training jobs, their steps and losses, and the ranks of their nodes.
- `state`, `config`: instances that are verified in advance, and where successors come from.
- `model.nodes`: EBS volumes that move from an instance to its successor.
"""
