"""The spare pool: verified instances that wait for a case that needs a replacement.

Read in this order:

- `pool`: reads and changes spares. A write condition on the version gives each spare to one case only.
- `instances`: reads what the instance of a spare shows, and the case in its tag.
- `reconcile`: launches, verifies, replaces and terminates spares. The sweep calls it.

`successor.launch` takes a spare for a case. docs/launch-templates.md explains how to configure a pool.

Tests: tests/scenarios/provider/test_spares.py.
"""
