"""The ledger: the only writer of nodes and clusters; publishes, reads and verifies their entries.

An entry is one immutable line of a stream. Every node and every cluster has one stream. Read in this order: Writing:
`append` (nodes), `cluster_stream` (clusters), `publish` (to the event bus, at least once each). Reading: `queries`,
`cluster_reads` (shared reads), `timeline` (pages of entries), `history` (devices and nodes over time), `causes` (the
chain of one entry), `entry_text` (entries as sentences), `policies` and `rulebook`. Proof: `hash_chain` (one stream),
`verify` (a cluster), `archive/`, `recover` (a new epoch after a restore). `ports/` has the interfaces of the adapters.
Tests: tests/ledger, tests/archive.
"""
