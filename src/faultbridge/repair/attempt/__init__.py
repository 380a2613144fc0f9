"""One attempt to repair a node: how its steps are called, fenced, retried and recovered.

Read in this order: `step_context` (requests, results and outcomes of a step, what it reads, and its fenced writes),
`step_runner` (runs one step; `STEPS` lists all; recovers lost executions and leaked slots), and `intent` (the point of
no return, and the next action after a failure). Tests: tests/repair, tests/scenarios/repair/test_crashes.py.
"""
