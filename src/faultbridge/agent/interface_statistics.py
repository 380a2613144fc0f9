"""Reads the statistics of the network interfaces: runs `ethtool -S` for each interface."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from faultbridge.agent.child_processes import Outcome, ProbeResult, RunningProbe, start_process
from faultbridge.data.counters import counters_of

SOURCE = "ethtool-stats"
TIMEOUT_SECONDS = 10.0
_HEADING = b"NIC statistics:"
_WORST_FIRST = (Outcome.HUNG, Outcome.CRASHED, Outcome.OVERSIZED, Outcome.FAILED)


@dataclass(slots=True)
class InterfaceStatistics:
    """The probe of the interface statistics: starts a round of `ethtool -S` over all interfaces.

    While an `ethtool` process of an interface cannot be killed, no second process is started for that interface.
    """

    interfaces: Sequence[str]
    start_program: Callable[[Sequence[str]], RunningProbe | ProbeResult] = start_process
    monotonic: Callable[[], float] = time.monotonic
    not_killed: dict[str, RunningProbe] = field(default_factory=dict)

    @property
    def timeout_seconds(self) -> int:
        """Return the timeout of a round over all interfaces, in seconds."""
        return int((TIMEOUT_SECONDS + 1) * len(self.interfaces)) + 1

    def start(self) -> RunningProbe:
        """Start one round over all interfaces, and return it as a running probe."""
        return _Round(self)


class _Round:
    def __init__(self, statistics: InterfaceStatistics) -> None:
        self._statistics = statistics
        self._left = list(statistics.interfaces)
        self._running: RunningProbe | None = None
        self._deadline = 0.0
        self._output = bytearray()
        self._failed: dict[str, tuple[Outcome, str]] = {}
        self._absent = False

    def poll(self) -> ProbeResult | None:
        while self._left:
            result = self._start() if self._running is None else self._check(self._running)
            if result is None:
                return None
            self._running = None
            self._add(self._left.pop(0), result)
        return self._result()

    def kill(self) -> bool:
        return self._running is None or self._running.kill()

    def _start(self) -> ProbeResult | None:
        interface = self._left[0]
        before = self._statistics.not_killed.get(interface)
        if before is not None and not before.kill():
            return ProbeResult(Outcome.HUNG, error_text="the process cannot be killed")
        self._statistics.not_killed.pop(interface, None)
        started = self._statistics.start_program(("ethtool", "-S", interface))
        if isinstance(started, ProbeResult):
            return started
        self._running, self._deadline = started, self._statistics.monotonic() + TIMEOUT_SECONDS
        return None

    def _check(self, running: RunningProbe) -> ProbeResult | None:
        result = running.poll()
        if result is not None or self._statistics.monotonic() <= self._deadline:
            return result
        if running.kill():
            return ProbeResult(Outcome.HUNG, error_text=f"no response within {TIMEOUT_SECONDS:.0f} s")
        self._statistics.not_killed[self._left[0]] = running
        return ProbeResult(Outcome.HUNG, error_text="the process cannot be killed")

    def _add(self, interface: str, result: ProbeResult) -> None:
        if result.outcome is Outcome.ABSENT:
            self._absent, self._left = True, []
        elif result.output.lstrip().startswith(_HEADING):
            self._output += interface.encode() + b":\n" + counters_with_threshold(result.output)
        else:
            outcome = Outcome.FAILED if result.outcome is Outcome.DONE else result.outcome
            self._failed[interface] = (outcome, result.error_text or "no statistics")

    def _result(self) -> ProbeResult:
        if self._absent or not self._statistics.interfaces:
            return ProbeResult(Outcome.ABSENT)
        if not self._failed:
            return ProbeResult(Outcome.DONE, bytes(self._output))
        outcomes = {outcome for outcome, _ in self._failed.values()}
        worst = next(one for one in _WORST_FIRST if one in outcomes)
        errors = "; ".join(f"{interface}: {text}" for interface, (_, text) in self._failed.items())
        return ProbeResult(worst, bytes(self._output), errors, incomplete=bool(self._output))


def counters_with_threshold(output: bytes) -> bytes:
    """Return an `ethtool -S` output with only its heading and the counters that have a threshold.

    Ingest compares these counters with their thresholds, and ignores all other counters.
    """
    wanted = {name.encode() for name in counters_of(SOURCE)}
    return b"\n".join([_HEADING, *(line for line in output.splitlines() if _name(line) in wanted), b""])


def _name(line: bytes) -> bytes:
    """Return the name of the counter in a line of `ethtool -S`.

    Some drivers write the number of a queue before the name, as in `[0]: rx_errors: 1`.
    """
    return line.rpartition(b":")[0].rpartition(b"]:")[2].strip()
