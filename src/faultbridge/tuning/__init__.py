"""Tuning: searches for a better policy on one part of a trace, and evaluates the result on the other parts.

A trace is a list of all faults of a group of servers over some time.

- `search_space`: the numbers of a policy that the search may change, as a policy file.
- `search`: the search by Optuna; it minimizes lost GPU-hours and needless evictions.
- `evidence`: the policy file of the result, with the evidence in comments.

This package does not run in Lambda. Optuna is an optional dependency (`tune`). Tests: tests/tuning.
"""
