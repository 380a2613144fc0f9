"""Verification of an instance together with a peer.

- `pair_verifier`: runs the deep verification, then the tests with peers
- `ec2_peers`: finds the peers of an instance
- `peer_leases`: lets one verification at a time use a peer
"""
