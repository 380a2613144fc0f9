"""Tuning: searches for a better policy on one part of a trace, and judges it on parts that were held back.

- `search_space`: the numbers of a policy that are searched, as a policy file.
- `search`: the search by Optuna, with lost GPU-hours and needless evictions as its two aims.
- `evidence`: the policy file of the result, with the evidence in comments.

Nothing here runs in Lambda. Optuna is an optional dependency (`tune`). Tests: tests/tuning.
"""
