"""Verification of instances that join a cluster: verification cases, and peers for joint tests."""
