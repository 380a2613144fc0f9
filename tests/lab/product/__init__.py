"""The product in memory: runs Faultbridge's own pipeline and services for a simulated fleet.

The product in memory uses no AWS service. Read in this order:

- `host_ports`: the product's compute ports over simulated hosts.
- `item_table`, `node_store`, `repair_queue`: items, nodes and queued cases in memory.
- `fleet_services`: the product's services, which use these stores.
- `cluster_view`: timers, failing nodes and breakers in memory, which show when a sweep has nothing to do.
- `product_fleet`: one run of a scenario under a policy.

Tests: tests/lab.
"""
