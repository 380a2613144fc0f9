"""Commands that register a fleet and control its repairs.

Reading order: `cluster`, `cluster_settings`, `cluster_template`, `declared_domains`, `node`, `node_import`, `case`,
`incident`, `required_orders` (stuck), `repair_controls` (pause, resume, breaker), `mapping`, `job`.
"""
