"""The steps of an attempt: the states of the Step Functions state machine, in its order.

The order is `drain_node`, then `follow_provider`, `repair_in_place`, or `release_instance` and `await_successor`, then
`verify_instance`, and `return_to_service` and `close_case` in the module `close_case`, where `record_failure` records
an error that a step could not record itself. `NAME` is a step's name in the contract with the state machine. A function
with the name of its step runs it, and `on_timeout` ends it after its deadline. docs/state-machine.md has the diagram.
Tests: tests/repair and tests/scenarios.
"""
