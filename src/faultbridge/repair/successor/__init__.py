"""The successor: the instance that replaces a released one.

Read in this order: `sources` queries the sources of EC2 capacity in the policy's order, before a release and for
waiting cases, and provides a successor for an instance that is gone; `launch` launches at most one instance per token,
claims it for one node, and terminates launches that never backed a node. Tests:
tests/scenarios/repair/test_replacement.py and test_crashes.py, tests/scenarios/provider/test_launch_template.py.
"""
