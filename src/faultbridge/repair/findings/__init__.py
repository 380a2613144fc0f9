"""Findings: signs of gray failures, found by comparing nodes with their peers.

A gray failure is a defect that no tool reports as an error. A detector compares some error counters of the nodes of a
group. A node whose counters rise much faster than those of its peers gets a finding. Operators mark findings as right
or wrong, and a later hard fault can prove a finding right. A finding can cause a repair only if the policy lets its
detector act.

- `compare_peers`: adds up the error counters of each node, for each detector. Reports findings as faults, if their
  detector is precise enough for the policy. Compares the nodes of a cluster, at most once an hour, and opens and ends
  findings.
- `judgments`: lists findings, records whether each was right, and computes the precision of detectors.

Tests: tests/findings.
"""
