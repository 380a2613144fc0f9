"""Verification of instances that join a cluster: the cases that require it, and the peers for its tests."""
