"""Deterministic simulation: runs the real product code on fake ports, with faults drawn from a seed.

Reading order:

- A run: `history` (one run of a seed), `rest` (the end of a run), `simulated_system` (the installation that runs),
  `policies` (other than the default policy), `journal` (the timeline of a run).
- Influences on the installation: `environment/` (sources, operators and cloud), `situations/` (rare circumstances of a
  whole run), `instance_health`, `group_owner`, `node_clocks`, `fault_injection`.
- Time and AWS: `schedule` (simulated time), `sweep_schedule`, `deliveries` (how AWS delivers messages), `workers` (the
  Lambda functions), `scheduled_state_machine` (Step Functions).
- Ports: `simulated_ports`, `fakes/`.
- Checks: `invariants/` (statements that are true in every correct run), `laws/` (what must never happen),
  `exhaustive` (all sequences of a few faults) with `scripted_orders`, `shrink` (finds a smaller failing run).
"""
