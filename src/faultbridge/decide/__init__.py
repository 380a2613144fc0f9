"""Pipeline: the pure stages from observations of one node to its next state and timeline entries.

Every stage is a function of its arguments: no clock, no table, no network. Reading order: `observe` (the stages in
order), `normalize/`, `fold/`, `decide` with `case_moves` and `governing_rules`, `correlate/`, `admit` with `breaker`
and `isolation_budget`, `entry_builder` (entries and their texts) with `receipt` (what a closed case would have cost
under other rules). `policyfile/` reads policies, `backtest/` replays the record. Tests: tests/pipeline,
tests/policyfile, tests/backtest.
"""
