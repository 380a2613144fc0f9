"""The ledger: writes nodes and clusters, publishes their entries, and reads and verifies the timeline.

An entry is one immutable line of a stream. Every node and every cluster has one stream. Read in this order:

- `append`: writes nodes. One transaction commits a node's state and its entries.
- `cluster_stream`: writes a cluster's own state and entries. Lists the streams of a cluster, their last entries, and
  the entries of one stream.
- `publish`: sends entries to the event bus, at least once each.
- `queries`: reads all pages of a query, the rows in all shards of a cluster, and the entries of a time window.
- `cluster_reads`: shares reads of one cluster among several services.
- `timeline`: the entries of a node, cluster, case, device or job, in pages. The entries of a job and of the nodes
  whose faults affected it. Yields the entries of a timeline, then each new entry. Opaque texts that contain a
  position in a timeline or list.
- `history`: what happened to one device or one node over time, and which devices or slots have repeated faults.
- `causes`: the chain of one entry: what caused it, and what it caused.
- `entry_text`: a short text for an event: what happened, and why.
- `hash_chain`: recomputes the attributes of a stored entry from its body. Checks the entries of one stream one by
  one: sequence, hash, identity and attributes. A stream's last entry in a sealed day of the archive, and the last
  entry that may expire.
- `verify`: checks one stream: its entries, its state, its seal and its derived rows. Checks every stream of a
  cluster.
- `recover`: starts a new epoch in every stream after the table was restored from a backup.

Tests: tests/ledger; tests/archive covers verification with anchors.
"""
