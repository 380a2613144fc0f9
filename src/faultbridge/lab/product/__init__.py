"""The product in memory: runs its own stages and services for a simulated fleet, without a table and AWS.

- `host_ports`: the product's compute ports over simulated hosts.
- `item_table`, `node_store`, `repair_queue`: items, nodes and queued cases in memory.
- `fleet_services`: the product's services, which use these.
- `cluster_view`: timers, failing nodes and breakers; it shows what a sweep may leave out.
- `product_fleet`: one run of a scenario under a policy; `probes`: what it skips.

Tests: tests/lab.
"""
