"""Registry: clusters, nodes, their names, and the instances that back them.

Reading order:

- `registration`: creates clusters and nodes, changes the configuration of a cluster. A node to register, and its
  first state. Rejects a registration if Faultbridge and the provider would both repair, or neither.
- `roster`: the rows from which the inventory reads which instance backs which node.
- `aliases`: the names that lead from a record to a node, and how they change.
- `instances`: the result of an inventory sync, and how two descriptions of an instance are combined.
- `groups`: when a sync first read a provider's group; compares the group's members with its nodes.
- `provider_check`: records what the provider reports about a whole cluster, and how many nodes to expect.
- `inventory_sync`: compares running instances with registered nodes, and updates the nodes.
- `replacement_detection`: updates a node whose instance another controller changed or removed.
- `verification`: cases that require a verification before an instance serves, and peers for joint tests.
- `inventory_events`: the account and the HyperPod cluster that a provider's event names. Starts a sync when a
  provider event names an instance or a group.
- `retirement`: removes a node from its cluster.
- `gpus`: the devices that nodes had at a time, as far as their current instances prove it. The share of GPUs in
  service, and the GPU time lost.
- `views`, `job_views`, `documents`: read the current state, and return it as JSON.

The model of an instance is `faultbridge.model.instances`. Tests: `tests/registry`.
"""
