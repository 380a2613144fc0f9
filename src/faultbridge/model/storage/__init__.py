"""Storage: the items, keys, indexes and conditional writes of the one DynamoDB table, as plain values.

Nothing here calls AWS: `adapters/dynamodb` executes the writes; in tests, a fake table does. Reading order:

- `writes`: puts, updates, deletes, checks and their conditions, and the indexes with the partitions of waiting work.
- `keys`: the keys of most kinds of items.
- `codec`: converts domain values to item attributes and back.
- `items`: the items of nodes, entries, cases, clusters, aliases and spares, and items of earlier releases.
- `projections`: rows derived from a node's state (unhealthy nodes, repair queue, case index), and rows that lead from
  a job or a device to its entries.
- `node_rows`: the classes of rows about nodes that need work.
- `jobs`, `rejects`: the items of training jobs and of rejected records.
- `record.policies`: the list of policy versions.
- `findings`: findings of detectors, and the baselines with which counters are compared.
- `incidents`, `heartbeats`, `counter_samples`: the items of incidents, heartbeats and counter samples.
- `devices`: where devices were seen, and which had faults.
- `wire/`: formats outside the table: queue messages, EventBridge events, archive lines.

Tests: tests/storage.
"""
