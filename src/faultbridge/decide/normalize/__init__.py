"""Normalize: prepares a raw record and its observations, before the node's state changes.

Reading order, as a record passes:

- `mask_secrets`: removes secrets from the raw bytes.
- `trust`: checks whether a sender may report about a node.
- `timestamp`: gives every observation a time that is never in the future, and corrects the times of a slow clock.
- `compare`: turns the difference between two counter samples into faults.
- `oversized_records`: limits records with too many faults, and links truncated excerpts to the full record.
- `resolve`: finds the node by any of its names, and the incarnation that a record is about.

`serve/ingest/record_reader.py` and `serve/ingest/caches.py` call these stages. Tests: tests/pipeline.
"""
