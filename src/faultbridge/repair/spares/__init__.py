"""The spare pool: verified instances that wait for a case that needs a replacement.

`pool` gives each spare to one case only. `reconcile`, which the sweep calls, launches, verifies and terminates spares.
`successor.launch` takes a spare for a case. docs/launch-templates.md explains how to configure a pool. Tests:
tests/scenarios/provider/test_spares.py.
"""
