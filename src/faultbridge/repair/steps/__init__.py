"""The steps of an attempt: one module per state of the Step Functions state machine, in its order.

The order is `drain_node`, then `follow_provider`, `repair_in_place`, or `release_instance` and `await_successor`, then
`verify_instance`, `return_to_service` and `close_case`; `record_failure` records an error that a step could not record
itself. In each module, `NAME` is the step's name in the contract with the state machine. The function that has the name
of its module runs the step, and `on_timeout` ends it after its deadline. docs/state-machine.md has the diagram. Tests:
tests/repair and tests/scenarios.
"""
