"""Verify an instance together with a peer, which is a healthy instance of the same type.

- `pair_verifier`: runs the deep verification, then the tests with peers
- `ec2_peers`: finds the peers of an instance
- `peer_leases`: ensures that only one verification at a time uses a peer
"""
