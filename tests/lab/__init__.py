"""Lab: simulates months of a fleet under a policy, and compares policies.

Reading order:

- `trace`: reads a published trace of faults; `fault_process` generates the faults of any number of hosts from it.
- `scenario`: a fleet, its faults, precursors and false alarms, and the assumptions that no trace states.
- `hosts`: the true faults of each host, and the pool of hosts; `symptoms`: the faults that Faultbridge receives.
- `jobs`: the work of the nodes, and what it loses; `fleet`: what happens to both.
- `product`: one run of a scenario under a policy; `baselines`: one under the rules of another repair system.
- `comparison`: measures runs, and compares systems over many seeds; `simulate_fleet`, `tune`, `plots`: the commands.

This package needs only Faultbridge and the standard library, and Optuna to tune.
"""
