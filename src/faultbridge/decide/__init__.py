"""Pipeline: the pure stages from observations of one node to its next state and timeline entries.

Every stage is a function of its arguments: no clock, no table, no network. Reading order:

- `observe`: the list of stages, in the order in which they run.
- `normalize/`: prepares raw records: masks secrets, checks senders, assigns times, finds the node.
- `fold/`: merges observations into the node's conditions; duplicates and reordering change nothing.
- `correlate/`: finds one shared cause behind the faults of many nodes.
- `peers`: compares the counters of a node with those of its group.
- `entry_builder`: builds the draft entries of the timeline; their texts are read by operators. The form of a list of
  nodes in an entry.

Most callers are in `ingest`, `repair`, `registry` and `incidents`. Tests: tests/pipeline.
"""
