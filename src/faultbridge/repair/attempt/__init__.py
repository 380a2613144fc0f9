"""One attempt to repair a node: how its steps are called, fenced, retried and recovered.

A step is fenced if it can write only while its attempt is the current one of the case. Read in this order:

- `step_contract`: requests, results and outcomes that the state machine and the steps exchange.
- `step_runner`: runs one step with lease, deadline and task token; `STEPS` lists all steps.
- `step_context`: what a step reads, and its fenced writes. The interfaces that steps use, and the access to other AWS
  accounts.
- `progress`: state changes of an attempt that has not ended. State changes that end an attempt without a verified
  node.
- `verification_rules`: the level of a verification, and the faults that fail it.
- `intent`: escalates from one repair action to the next. The point of no return, recorded before a repair acts on an
  instance. Log bundles and verification reports.
- `cordon_again`: keeps work off a node that a return to service may have uncordoned.
- `recovery`: resumes, starts or replaces executions; the sweep calls it. Releases repair slots that no attempt uses.

Tests: tests/repair/test_step_runner.py, tests/repair/test_progress.py, tests/scenarios/repair/test_crashes.py.
"""
