"""Ingest: from a message on the raw queue to the committed state of a node.

Read in this order:

- `send`: puts raw records on the queue and writes receipts.
- `ingest`: processes a batch of deliveries.
- `record_reader`: decodes a message into observations.
- `node_lookup`: finds the node of a record and checks its sender.
- `node_batch`: the records of one node that one commit processes.
- `node_commits`: commits the records of a batch, node by node or in groups.
- `caches`: nodes and items that a warm process keeps.
- `counter_store`: the last counters of each component, for comparison with the next sample.
- `sample_limit`: how many counter samples one item stores, and the fault that reports samples beyond this limit.
- `heartbeat_log`: stores the heartbeats of a batch with the times of health snapshots, and each node's last heartbeat.
- `heartbeat_monitor`: records missing heartbeats as faults.
- `missing_heartbeat`: the fault of a missing heartbeat, and what the provider reports about the instance.
- `poison_messages`: detects messages that stop their worker.
- `outcomes`: the outcome of each record, why messages go back to the queue, and the receipt lines.
- `release`: sets the pause before SQS delivers a returned message again.
- `rejects`: stores rejected records and retries them.
- `redrive`: moves dead letters back to the queue.
- `mappings`: customer mappings from alert names and log texts to fault codes.
- `delivery_audit`: checks that every record that was sent has an outcome.
- `canary`: test records that show that the way from queue to bus works.

The Lambda function is `entrypoints/ingest.py`. docs/runbooks/logs.md explains the log lines. Tests: tests/ingest.
"""
