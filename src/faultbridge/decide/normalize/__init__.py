"""Normalize: prepares a raw record and its observations, before the node's state changes.

Reading order, as a record passes: `mask_secrets`, `trust` (may the sender report), `timestamp`, `compare` (counters to
faults), `oversized_records`, `resolve` (node and incarnation). `serve/ingest` calls these stages. Tests:
tests/pipeline.
"""
