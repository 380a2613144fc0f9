"""Registry: clusters, nodes, their names, and the instances that back them.

Read in this order: `registration` (creates clusters and nodes), `roster` and `aliases` (rows and names of nodes),
`inventory_sync` (compares instances with nodes; `groups`, `instances` and `provider_check` are its parts),
`replacement_detection`, `verification` (before an instance serves), `inventory_events` (starts a sync), `retirement`,
`gpus`, and `views`, `job_views`, `documents` (the current state, also as JSON). Tests: tests/registry.
"""
