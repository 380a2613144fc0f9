"""One attempt to repair a node: how its steps are called, fenced, retried and recovered.

A step is fenced if it can write only while its attempt is the current one of the case. Read in this order:
`step_contract` (requests, results and outcomes), `step_runner` (runs one step; `STEPS` lists all), `step_context` (what
a step reads, and its fenced writes), `progress` (state changes), `intent` (the point of no return, and the next action
after a failure), `verification_rules`, and `recovery` (lost executions and leaked slots). Tests: tests/repair,
tests/scenarios/repair/test_crashes.py.
"""
