"""The steps of an attempt: one module per state of the Step Functions state machine, in its order.

- `drain_node` (DrainNode): waits until running work has left the node.
- `follow_provider` (FollowProvider): waits for a repair by the provider.
- `repair_in_place` (RepairInPlace): resets the GPUs or reboots the instance.
- `release_instance` (ReleaseInstance): releases the old instance so that it is replaced.
- `await_successor` (AwaitSuccessor): claims a new instance for the node.
- `verify_instance` (VerifyInstance): runs diagnostics. `unverified` has the outcomes without a result.
- `return_to_service` (ReturnToService): uncordons the node.
- `close_case` (CloseCase): resolves the case and releases its slot.
- `record_failure` (RecordFailure): records an error that a step could not record itself.

In each module, `NAME` is the step's name in the contract with the state machine. The function that has the name of its
module runs the step. After the deadline of a step that can wait, the function `on_timeout` ends the step.
docs/state-machine.md has the diagram.

Tests: tests/repair/test_state_machine.py, tests/repair/test_step_runner.py and tests/scenarios.
"""
