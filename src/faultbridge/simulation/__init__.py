"""Deterministic simulation: runs the real product code on fake ports, with faults drawn from a seed.

Reading order: `history` (one run of a seed), `rest` (its end), `simulated_system` (the installation that runs),
`instance_health`, `environment/` (sources, operators and cloud that act on it), `fault_injection`, `schedule`
(simulated time), `sweep_schedule`, `deliveries` (how AWS delivers messages), `workers` (the Lambda functions),
`simulated_ports` and `fakes/` (the ports), `remembered_values`, `scheduled_state_machine`, `journal`, `invariants/`
(what must hold), `policies`, `exhaustive` (all orderings of a few faults), `shrink`.
"""
