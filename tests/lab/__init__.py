"""Lab: simulates months of a fleet under a policy, and compares policies.

Reading order:

- `trace`: reads a published trace of faults, and splits it into parts.
- `fault_process`: generates the faults of any number of hosts from a trace.
- `fit`: the statistics by which a generated process is compared with its trace.
- `scenario`: a fleet, its faults and false alarms, and the assumptions that no trace states.
- `hosts`: the true faults of each host, and the pool of hosts; `symptoms`: the faults that Faultbridge receives.
- `events`: what happens to the fleet; `product`: one run of a scenario under a policy; `fleet_log`: the result.
- `baselines`: the rules of other repair systems; `baseline_fleet`: one run of a scenario under these rules.
- `job_mix`, `measures`: what the outages cost jobs; `comparison`: compares systems over many seeds.

This package does not run in Lambda, and needs only Faultbridge and the standard library. Tests: tests/lab.
"""
