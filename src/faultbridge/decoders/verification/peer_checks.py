"""Decides from the tests between an instance and its peers whether the instance is faulty.

An instance is faulty if the tests failed with at least two peers and passed with none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultbridge.data.deep_tests import DeepTest, peer_tests
from faultbridge.dataclass import dataclass
from faultbridge.decoders.verification.deep_checks import DeepResult, instance_of, judge, unverified
from faultbridge.decoders.verification.gpu_processes import NONE_IGNORED, GpuProcesses, occupants
from faultbridge.decoders.verification.sections import NOT_STARTED, Section, script_of, split
from faultbridge.domain.copies import replace

FAILURES = 2
"""Number of peers with which the tests must fail before the instance counts as faulty."""


@dataclass(frozen=True, slots=True)
class PeerDecision:
    """The decision from the tests with all peers so far: passed, failed or undecided (None).

    `lines` has one line per peer for operators. `failures` is the number of peers with which the tests failed.
    """

    passed: bool | None
    lines: tuple[str, ...]
    failures: int = 0


class PeerChecks:
    """Defines the tests that run between two instances, and reads their output.

    The tests run on neither instance while a process uses its GPUs, except those that `processes` ignores.
    """

    def __init__(self, processes: GpuProcesses = NONE_IGNORED) -> None:
        self._processes = processes

    def script(self, server: str) -> tuple[str, ...]:
        """Return the script that both instances run.

        `server` is the address of the instance that acts as the server.
        """
        tests = script_of([replace(test, script=f"server={server}\n{test.script}") for test in peer_tests()])
        return (*self._processes.script(), *tests)

    @property
    def seconds(self) -> int:
        """Return the time limit in seconds of all tests together."""
        return sum(test.seconds for test in peer_tests())

    def read(self, output: bytes, level: int, instance_type: str | None, efa_interfaces: int | None) -> DeepResult:
        """Return one result for all tests, from the output of the instance that acted as the client.

        - If a test failed, the result is failed.
        - If all tests passed, the result is passed.
        - Otherwise, the result is not verified.

        A test that is optional at this level is left out if its tools are not installed.
        """
        if occupied := occupants(output):
            return self.unanswered("; ".join(occupied))
        sections, instance = split(output)[1], instance_of(instance_type, efa_interfaces)
        if isinstance(instance, str):
            return self.unanswered(instance)
        results = {test: judge(test, sections.get(test.name), instance) for test in peer_tests()}
        needed = [one.passed for test, one in results.items() if not _is_left_out(test, sections, level)]
        passed = False if False in needed else all(needed) or None
        return DeepResult(passed, "; ".join(one.line for one in results.values() if passed or not one.passed))

    def unanswered(self, reason: str) -> DeepResult:
        """Return the result `not verified` for all tests between two instances, with the reason."""
        return unverified(" and ".join(test.name for test in peer_tests()), reason)

    def decide(self, results: Sequence[tuple[str, bool | None, str]]) -> PeerDecision:
        """Return the decision about the instance from its results with peers.

        Each result has the id of the peer, whether the tests passed, and a line for operators.

        - If the tests passed with one peer, the instance works. Each peer with which they failed is suspected.
        - If they passed with no peer and failed with two or more, the instance is faulty.
        - Otherwise the instance is undecided, and needs a test with another peer.
        """
        passed = any(one for _, one, _ in results)
        failures = sum(one is False for _, one, _ in results)
        doubt = " (this peer is suspected: another one passed)"
        lines = tuple(f"with {peer}: {line}{doubt if passed and one is False else ''}" for peer, one, line in results)
        return PeerDecision(True if passed else None if failures < FAILURES else False, lines, failures)


def _is_left_out(test: DeepTest, sections: Mapping[str, Section], level: int) -> bool:
    section = sections.get(test.name)
    return level < test.optional_below and section is not None and section.status == NOT_STARTED
