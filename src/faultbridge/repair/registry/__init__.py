"""Registry: clusters, nodes, their names, and the instances that back them.

Read in this order: `registration` (creates clusters and nodes), `roster` (rows and names of nodes), `inventory_sync`
(compares instances with nodes; `groups` and `provider_check` are its parts), `replacement_detection`, `verification`
(before an instance serves), `retirement`, `gpus`, and `views`, `job_views`, `documents` (the current state, also as
JSON). Tests: tests/registry.
"""
