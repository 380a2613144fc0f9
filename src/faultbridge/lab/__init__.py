"""Lab: replays months of a fleet under a policy, and compares policies; standard library only.

Reading order:

- `trace`: reads a published trace of faults, and splits it into parts.
- `fault_process`: generates the faults of any number of hosts from a trace.
- `fit`: the statistics by which a generated process is compared with its trace.
- `scenario`: a fleet, its faults and false alarms, and the assumptions that no trace states.
- `hosts`: what is really wrong with each host, and the pool of hosts; `symptoms`: the faults that the product receives.
- `events`: what happens to the fleet; `product`: one run of a scenario under a policy; `fleet_log`: the result.
- `baselines`, `baseline_fleet`: the rules of other systems, and one run of a scenario under them.
- `job_mix`, `measures`: what the outages cost jobs; `comparison`: systems over many seeds.

Nothing here runs in Lambda. Tests: tests/lab.
"""
