"""Tuning: searches by simulation for a policy with better results than the packaged policy.

The search uses one part of a fault trace, which is a list of all faults of a group of servers over some time. The
command `faultbridge policy tune` evaluates the found policy on the other parts of the trace.

- `search_space`: the numbers of a policy that the search may change, and the policy file with these numbers.
- `search`: the search by Optuna; it minimizes lost GPU-hours and needless evictions.
- `evidence`: the policy file of the result, with the evidence in comments, and a chart of the tried policies.

This package does not run in Lambda. Optuna is an optional dependency (`tune`). Tests: tests/tuning.
"""
