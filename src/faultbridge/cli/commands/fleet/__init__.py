"""Commands that register a fleet and control its repairs.

Reading order: `cluster`, `cluster_template`, `node`, `node_import`, `case`, `repair_controls` (pause, resume, breaker),
`policy`, `mapping`, `job`.
"""
