"""The successor: the instance that replaces a released one.

Read in this order:

- `sources`: queries the sources of EC2 capacity in the order of the policy. Requires evidence of capacity before an
  instance is released, and postpones groups without capacity. Counts the replacements that will use free instances of
  a shared reservation. Takes a spare or launches a successor for a node whose old instance is already gone.
- `launch`: launches successors for groups that launch no instances themselves, at most one per token. Attaches an
  instance to exactly one node.
- `waits`: checks capacity again for the cases that wait for it, and pages if a wait is too long.
- `unused`: terminates launched instances that never backed a node.

The step `steps.release_instance` uses `capacity` and `launch`; `steps.await_successor` uses `claim` and `provide`.

Tests: tests/scenarios/repair/test_replacement.py and test_crashes.py, tests/scenarios/provider/test_launch_template.py.
"""
