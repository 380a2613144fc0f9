"""Deterministic simulation: runs the real product code on fake ports, with faults drawn from a seed.

Reading order: `history` (one run of a seed), `rest` (the end of a run), `simulated_system` (the installation that
runs), `instance_health`, `group_owner`, `environment/` (sources, operators and cloud that act on the installation),
`fault_injection`, `schedule` (simulated time), `sweep_schedule`, `deliveries` (how AWS delivers messages), `workers`
(the Lambda functions), `simulated_ports` and `fakes/` (the ports), `remembered_values`, `scheduled_state_machine`,
`journal`, `invariants/` (what must be true in every run), `policies`, `exhaustive` (all orderings of a few faults) with
`scripted_orders`, `shrink` (finds a smaller failing run).
"""
