"""The guards of the verification with a peer, each left out: peers, leases, and what counts as a result."""

from __future__ import annotations

from tests.simulation.mutants.planted_bug import PlantedBug, planted

_VERIFIER = "adapters/verification/pair_verifier.py"
_CHECKS = "decoders/verification/deep_checks.py"
_PEERS = "decoders/verification/peer_checks.py"
_OUTPUT = "decoders/verification/nccl_tests.py"
PAIR_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _VERIFIER,
        "SsmPairVerifier.start",
        "the verification of an instance starts while it is a peer",
        "if self._leases.holder(instance_id) is not None:",
        "if False:",
    ),
    planted(
        _VERIFIER,
        "SsmPairVerifier._with_peers",
        "level 5 passes without a peer",
        "if level >= PAIR_LEVEL:",
        "if False:",
    ),
    planted(
        _VERIFIER,
        "SsmPairVerifier._with_peers",
        "a failure with the only peer passes at level 4",
        "if decision.failures:",
        "if False:",
    ),
    planted(
        _VERIFIER,
        "SsmPairVerifier._with_peers",
        "every instance of the cluster is used as a peer",
        "if len(tried) < MAX_PEERS and self._begin(",
        "if self._begin(",
    ),
    planted(
        _VERIFIER,
        "SsmPairVerifier._result",
        "output counts although the command did not end on the peer",
        "if details[1] in UNFINISHED:",
        "if False:",
    ),
    planted(
        _VERIFIER,
        "SsmPairVerifier._begin",
        "two verifications use one peer",
        "if holder is not None or not self._leases.take(peer.instance_id, operation):",
        "if False:",
    ),
    planted(
        _VERIFIER,
        "SsmPairVerifier._send",
        "a peer is free again although its command may have been sent",
        "            if is_outage(error):\n                raise",
        "            if is_outage(error):\n                pass",
    ),
    planted(
        _PEERS,
        "PeerChecks.decide",
        "one failure blames the instance",
        "None if failures < FAILURES else False",
        "None if not failures else False",
    ),
    planted(
        _PEERS,
        "PeerChecks.read",
        "a failure of one test is hidden by a missing result of the other one",
        "False if False in needed else",
        "False if needed[0] is False else",
    ),
    planted(
        _PEERS,
        "_is_left_out",
        "level 5 passes without an all-reduce",
        "return level < test.optional_below and",
        "return test.optional_below > 0 and",
    ),
    planted(
        _PEERS,
        "_is_left_out",
        "an instance passes without a result of EFA",
        "return level < test.optional_below and",
        "return",
    ),
    planted(
        _PEERS,
        "_is_left_out",
        "level 4 passes although its all-reduce did not end",
        "section.status == NOT_STARTED",
        "section.status != 0",
    ),
    planted(
        _CHECKS,
        "_judge_nccl_pair",
        "an all-reduce over TCP passes",
        "if found.over_efa != found.gpus and not found.wrong:",
        "if False:",
    ),
    planted(
        _CHECKS,
        "_judge_nccl_pair",
        "an all-reduce passes although one GPU did not use EFA",
        "if found.over_efa != found.gpus and",
        "if not found.over_efa and",
    ),
    planted(
        _CHECKS,
        "_judge_nccl_pair",
        "an all-reduce that ended with an error passes",
        '    if section.status != 0:\n        return unverified(name, f"exit status {section.status}: ',
        '    if False:\n        return unverified(name, f"exit status {section.status}: ',
    ),
    planted(
        _CHECKS,
        "_judge_nccl_pair",
        "an instance with fewer EFA interfaces than its type can have fails",
        "share = 1.0 if attached is None else min(attached / full, 1.0)",
        "share = 1.0",
    ),
    planted(
        _CHECKS,
        "_judge_nccl_pair",
        "an instance fails although the number of its EFA interfaces is unknown",
        "if result.passed is False and attached is None and",
        "if False and",
    ),
    planted(
        _CHECKS,
        "_judge_all_reduce",
        "wrong values pass",
        "    if found.wrong:",
        "    if False:",
    ),
    planted(
        _CHECKS,
        "_judge_all_reduce",
        "an all-reduce passes without all GPUs",
        "    if found.gpus != gpus:",
        "    if False:",
    ),
    planted(
        _OUTPUT,
        "read_pair_all_reduce",
        "an all-reduce passes although not all sizes were printed",
        "if not complete or",
        "if not rows or",
    ),
    planted(
        _OUTPUT,
        "read_pair_all_reduce",
        "a line that cannot be read is ignored",
        "len(_STEP.findall(text)) != len(rows) or",
        "",
    ),
    planted(
        _OUTPUT,
        "read_pair_all_reduce",
        "the number of GPUs changes between two sizes",
        "or len({row[2] for row in rows}) != 1:",
        "or not rows:",
    ),
)
"""The guards of pairs; `test_pair_verifier.py`, `test_peer_checks.py`, `test_nccl_peer_pair.py` notice each of them."""
