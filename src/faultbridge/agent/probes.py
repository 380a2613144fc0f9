"""Runs the probes of a node at intervals, one at a time, and reports a probe that fails as a fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from faultbridge.agent.child_processes import Outcome, ProbeResult, RunningProbe
from faultbridge.agent.host import AgentClock
from faultbridge.domain.times import to_text

CPU_SHARE_PER_PROBE = 0.005
"""Average share of one core for each probe; a probe that uses more runs less often."""

MAX_INTERVAL_FACTOR = 10
"""An expensive probe runs at least once in this many intervals."""

REPEAT_FAULT_SECONDS = 600.0
ABSENT_RETRY_SECONDS = 600.0

FAULT_SOURCE = "faultbridge"
MAX_EVIDENCE = 2048
# nvidia-smi that does not respond can mean a driver fault; the failure of any other probe is no sign of a node fault.
_SEVERITY_AND_ACTION = {"smi": ("error", "run_diagnostics")}
_DEFAULT_SEVERITY_AND_ACTION = ("warning", "none")
_CODES_AND_MESSAGES = {
    Outcome.HUNG: ("hang", "did not respond within {seconds} s"),
    Outcome.CRASHED: ("crash", "crashed"),
    Outcome.FAILED: ("failed", "failed"),
    Outcome.OVERSIZED: ("oversize", "wrote more than 2 MiB of output"),
}


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe: how to start it, how often it runs, its timeout, and how its output is recognized.

    - `source` is the source of the records that contain the output.
    - `expected_prefix` is the text at the start of valid output. White space before this text is ignored. An empty
      prefix allows every output. Output without this text is sent only if it contains one of `known_errors`.
    - `known_errors` are error texts that the decoder of `source` also reads.
    - `second_source`, if it is not None, is the source of a second record with the same output.
    - `code_prefix` is the first part of the fault codes that report a failure of the probe itself.
    """

    name: str
    source: str
    start: Callable[[], RunningProbe | ProbeResult]
    interval_seconds: int
    timeout_seconds: int = 30
    expected_prefix: bytes = b""
    code_prefix: str = "agent"
    second_source: str | None = None
    known_errors: tuple[bytes, ...] = ()


@dataclass(slots=True)
class _ProbeState:
    due_at: float
    failing: Outcome | None = None
    reported_at: float = float("-inf")
    not_killed: RunningProbe | None = None
    finished_once: bool = False


@dataclass(slots=True)
class ProbeScheduler:
    """Runs the probes one after another.

    A probe starts beside another probe only if the other probe hangs and cannot be killed. `cpu_seconds` returns the
    CPU time that the agent has used so far. A probe that uses much CPU time runs less often.
    """

    probes: Sequence[Probe]
    clock: AgentClock
    cpu_seconds: Callable[[], float]
    _states: dict[str, _ProbeState] = field(default_factory=dict)
    _current: Probe | None = None
    _running: RunningProbe | None = None
    _started_at: float = 0.0
    _cpu_at_start: float = 0.0

    def __post_init__(self) -> None:
        """Schedule the first runs of the probes two seconds apart."""
        now = self.clock.monotonic()
        active = [probe for probe in self.probes if probe.interval_seconds > 0]
        self._states = {probe.name: _ProbeState(now + 2 * number) for number, probe in enumerate(active)}

    def first_round_pending(self) -> bool:
        """Return whether any probe has not completed its first run yet."""
        return not all(state.finished_once for state in self._states.values())

    def failing(self) -> dict[str, str]:
        """Return the probes that fail now: a mapping from the name of a probe to its outcome."""
        return {name: state.failing.value for name, state in self._states.items() if state.failing is not None}

    def poll(self) -> Iterator[tuple[str, bytes]]:
        """Check the running probe or, if none runs, start the next due probe; yield the records of this probe.

        Each record is yielded as a pair of source and body.
        """
        if self._running is None:
            probe = self._next_due()
            if probe is not None:
                yield from self._start(probe)
            return
        assert self._current is not None  # noqa: S101 - set together with `_running`
        result = self._running.poll()
        if result is None and self.clock.monotonic() - self._started_at > self._current.timeout_seconds:
            state = self._states[self._current.name]
            state.not_killed = None if self._running.kill() else self._running
            result = ProbeResult(Outcome.HUNG, error_text="it cannot be stopped" if state.not_killed else "")
        if result is not None:
            yield from self._finish(self._current, result)

    def stop(self) -> None:
        """Kill the running probe, if a probe runs."""
        if self._running is not None:
            self._running.kill()
            self._running = None

    def _next_due(self) -> Probe | None:
        now = self.clock.monotonic()
        return next(
            (probe for probe in self.probes if probe.name in self._states and self._states[probe.name].due_at <= now),
            None,
        )

    def _start(self, probe: Probe) -> Iterator[tuple[str, bytes]]:
        state = self._states[probe.name]
        if state.not_killed is not None:
            if not state.not_killed.kill():  # never start a second process while the first cannot be killed
                result = ProbeResult(Outcome.HUNG, error_text="it cannot be stopped")
                yield from self._finish(probe, result)
                return
            state.not_killed = None
        self._started_at, self._cpu_at_start = self.clock.monotonic(), self.cpu_seconds()
        started = probe.start()
        if isinstance(started, ProbeResult):
            yield from self._finish(probe, started)
        else:
            self._current, self._running = probe, started

    def _finish(self, probe: Probe, result: ProbeResult) -> Iterator[tuple[str, bytes]]:
        self._running = None
        state, now = self._states[probe.name], self.clock.monotonic()
        state.finished_once = True
        if result.outcome is Outcome.ABSENT:
            state.due_at = now + ABSENT_RETRY_SECONDS
            return
        interval = float(probe.interval_seconds)
        cpu_interval = (self.cpu_seconds() - self._cpu_at_start) / CPU_SHARE_PER_PROBE
        state.due_at = now + max(interval, min(cpu_interval, interval * MAX_INTERVAL_FACTOR))
        output = result.output
        recognized = output.lstrip().startswith(probe.expected_prefix) or any(
            error in output for error in probe.known_errors
        )
        ended = result.incomplete or result.outcome in {Outcome.DONE, Outcome.FAILED}
        readable = recognized and ended and bool(output.strip())
        if readable:
            yield probe.source, output
            if probe.second_source is not None:
                yield probe.second_source, output
        done = result.outcome is Outcome.DONE
        succeeded = (readable or (done and not probe.expected_prefix)) and not result.incomplete
        outcome = Outcome.FAILED if done else result.outcome
        yield from self._report(probe, state, None if succeeded else outcome, result)

    def _report(
        self, probe: Probe, state: _ProbeState, failed: Outcome | None, result: ProbeResult
    ) -> Iterator[tuple[str, bytes]]:
        at, now = self.clock.now(), self.clock.monotonic()
        if state.failing is not None and failed is not state.failing:
            yield FAULT_SOURCE, probe_clear(probe.name, probe.code_prefix, state.failing, at=at, now=failed)
        changed, state.failing = failed is not state.failing, failed
        if failed is not None and (changed or now - state.reported_at >= REPEAT_FAULT_SECONDS):
            state.reported_at = now
            reported = ProbeResult(failed, result.output, result.error_text)
            fault = probe_fault(probe.name, probe.code_prefix, reported, at=at, seconds=probe.timeout_seconds)
            yield FAULT_SOURCE, fault


def probe_fault(probe: str, code_prefix: str, result: ProbeResult, *, at: datetime, seconds: int) -> bytes:
    """Return the fault that reports a failed probe, encoded as JSON.

    `code_prefix` is the first part of the fault code. `at` is the time of the failure. `seconds` is the timeout of the
    probe.
    """
    code, message = _CODES_AND_MESSAGES[result.outcome]
    evidence = result.error_text or result.output[:MAX_EVIDENCE].decode("utf-8", "replace")
    return _encode("fault", probe, f"{code_prefix}.{code}", f"{probe} {message.format(seconds=seconds)}", at, evidence)


def probe_clear(probe: str, code_prefix: str, outcome: Outcome, *, at: datetime, now: Outcome | None) -> bytes:
    """Encode the clear of a probe fault as JSON.

    `outcome` is the failure that has ended. `now` is the failure that replaces it, or None if the probe works again.
    """
    code = f"{code_prefix}.{_CODES_AND_MESSAGES[outcome][0]}"
    replaced_by = f"{code_prefix}.{_CODES_AND_MESSAGES[now][0]}" if now else None
    message = f"{probe} fails in another way: {replaced_by}" if replaced_by else f"{probe} responds again"
    return _encode("clear", probe, code, message, at, "")


def _encode(kind: str, probe: str, code: str, message: str, at: datetime, evidence: str) -> bytes:
    severity, action = _SEVERITY_AND_ACTION.get(code.partition(".")[0], _DEFAULT_SEVERITY_AND_ACTION)
    report = {
        "kind": kind,
        "source": FAULT_SOURCE,
        "code": code,
        "severity": severity,
        "action": action,
        "component": {"type": "node", "name": None},
        "observed_at": to_text(at),
        "message": message,
        "evidence": evidence[:MAX_EVIDENCE] or message,
        "attributes": {"look": probe},
    }
    return json.dumps(report).encode() + b"\n"
