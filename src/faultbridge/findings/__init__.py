"""Findings: signs of gray failures, found by comparing nodes with their peers.

A finding is recorded and marked right or wrong. It causes nothing else until a policy lets its detector act.

- `peer_totals`: the counter totals of the nodes of a cluster, by group and detector.
- `gray_faults`: the faults of findings, once their detector is precise enough for the policy.
- `compare_peers`: compares the nodes of a cluster once an hour, opens and ends findings.
- `judgments`: lists findings, records whether one was right, and computes the precision of detectors.

Tests: tests/findings.
"""
