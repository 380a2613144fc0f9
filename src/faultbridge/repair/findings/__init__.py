"""Findings: signs of failures that no tool reports, found by comparing nodes with their peers.

`compare_peers` opens a finding for a node whose error counters rise much faster than those of its peers, and reports it
as a fault if the policy lets the detector act. `judgments` records whether findings were right, which gives the
precision of detectors. Tests: tests/findings.
"""
