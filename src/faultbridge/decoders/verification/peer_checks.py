"""Judges the tests between an instance and its peers: one failure blames neither, a second peer decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from faultbridge.data.deep_tests import peer_tests
from faultbridge.decoders.verification.deep_checks import DeepResult, instance_of, judge, unverified
from faultbridge.decoders.verification.sections import script_of, split

FAILURES = 2
"""With how many peers the tests must fail until the instance is blamed."""


@dataclass(frozen=True, slots=True)
class PeerDecision:
    """What the tests with all peers so far decide: passed, failed, or None for undecided; and one line for each."""

    passed: bool | None
    lines: tuple[str, ...]
    failures: int = 0


class PeerChecks:
    """The tests between two instances, and the decoder of their output."""

    def script(self, server: str) -> tuple[str, ...]:
        """Return the lines of the script that both instances run; `server` is the address of the one that serves."""
        return script_of([replace(test, script=f"server={server}\n{test.script}") for test in peer_tests()])

    @property
    def seconds(self) -> int:
        """Return the time limit of all tests together."""
        return sum(test.seconds for test in peer_tests())

    def read(self, output: bytes, instance_type: str | None, efa_interfaces: int | None) -> DeepResult:
        """Return the worst result of the tests in the output of the instance that acted as the client."""
        sections, instance = split(output)[1], instance_of(instance_type, efa_interfaces)
        if isinstance(instance, str):
            return self.unanswered(instance)
        results = [judge(test, sections.get(test.name), instance) for test in peer_tests()]
        return min(results, key=lambda one: (False, None, True).index(one.passed))

    def unanswered(self, reason: str) -> DeepResult:
        """Return the result of a test that gave no output."""
        return unverified(peer_tests()[0].name, reason)

    def decide(self, results: Sequence[tuple[str, bool | None, str]]) -> PeerDecision:
        """Return what the results with peers decide about the instance; each has the peer's id, result and line.

        A test that passed shows that the instance works, so a peer with which it failed is suspected. Two peers with
        which it failed show that it does not.
        """
        passed = any(one for _, one, _ in results)
        failures = sum(one is False for _, one, _ in results)
        doubt = " (this peer is suspected: another one passed)"
        lines = tuple(f"with {peer}: {line}{doubt if passed and one is False else ''}" for peer, one, line in results)
        return PeerDecision(True if passed else None if failures < FAILURES else False, lines, failures)
