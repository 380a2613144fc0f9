"""Ingest: from a message on the raw queue to the committed state of a node.

Read in this order:

- `send`: puts raw records on the queue and writes receipts. Checks that every record that was sent has an outcome.
  Moves dead letters back to the queue.
- `ingest`: processes a batch of deliveries. Detects messages that stop their worker.
- `record_reader`: decodes a message into observations.
- `caches`: finds the node of a record and checks its sender. Nodes and items that a warm process keeps.
- `node_batch`: the records of one node that one commit processes. Commits the records of a batch, node by node or in
  groups.
- `counter_store`: the last counters of each component, for comparison with the next sample. How many counter samples
  one item stores, and the fault that reports samples beyond this limit.
- `heartbeat_log`: stores the heartbeats of a batch with the times of health snapshots, and each node's last
  heartbeat.
- `heartbeat_monitor`: records missing heartbeats as faults. The fault of a missing heartbeat, and what the provider
  reports about the instance.
- `outcomes`: the outcome of each record, why messages go back to the queue, and the receipt lines.
- `rejects`: stores rejected records and retries them.
- `mappings`: customer mappings from alert names and log texts to fault codes.
- `canary`: test records that show that the way from queue to bus works.

The Lambda function is `serve/entrypoints/ingest.py`. docs/runbooks/logs.md explains the log lines. Tests: tests/ingest.
"""
