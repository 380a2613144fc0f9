"""Commands that register a fleet, show it, and control its repairs.

Reading order: `cluster`, `cluster_settings`, `changed_settings`, `cluster_template`, `declared_domains`, `node`,
`node_import`, `node_effect`, `top`, `gpus`, `device`, `finding`, `case`, `incident`, `required_orders` (the command
`stuck`), `repair_controls` (the commands `pause`, `resume` and `breaker`), `mapping`, `job`, `job_run`, `job_ranks`.
"""
