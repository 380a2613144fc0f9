"""Runs the probes of a node at intervals, one at a time, and reports a probe that fails as a fault."""

from __future__ import annotations

import http.client
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from faultbridge.decode.data.counters import counters_of
from faultbridge.model.times import to_text
from faultbridge.node.agent.child_processes import (
    MAX_OUTPUT_BYTES,
    BackgroundRead,
    Outcome,
    ProbeResult,
    RunningProbe,
    start_process,
)
from faultbridge.node.agent.host import AgentClock
from faultbridge.node.agent.settings import AgentSettings

CPU_SHARE_PER_PROBE = 0.005
"""Average share of one core for each probe; a probe that uses more runs less often."""

MAX_INTERVAL_FACTOR = 10
"""An expensive probe runs at least once in this many intervals."""

REPEAT_FAULT_SECONDS = 600.0
ABSENT_RETRY_SECONDS = 600.0

FAULT_SOURCE = "faultbridge"
MAX_EVIDENCE = 2048
_NONE: Mapping[str, str] = {}
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
        """Check the running probe, or start the next due one; yield its records as source and body."""
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
    """Return the fault of a failed probe as JSON; `seconds` is the timeout of the probe."""
    code, message = _CODES_AND_MESSAGES[result.outcome]
    evidence = result.error_text or result.output[:MAX_EVIDENCE].decode("utf-8", "replace")
    return encode_report(
        "fault", probe, f"{code_prefix}.{code}", f"{probe} {message.format(seconds=seconds)}", at, evidence
    )


def probe_clear(probe: str, code_prefix: str, outcome: Outcome, *, at: datetime, now: Outcome | None) -> bytes:
    """Return the clear of a probe fault as JSON; `now` is the failure that replaces `outcome`, or None."""
    code = f"{code_prefix}.{_CODES_AND_MESSAGES[outcome][0]}"
    replaced_by = f"{code_prefix}.{_CODES_AND_MESSAGES[now][0]}" if now else None
    message = f"{probe} fails in another way: {replaced_by}" if replaced_by else f"{probe} responds again"
    return encode_report("clear", probe, code, message, at, "")


def encode_report(
    kind: str, probe: str, code: str, message: str, at: datetime, evidence: str, attributes: Mapping[str, str] = _NONE
) -> bytes:
    """Return a report of the agent itself as JSON: the `fault` or the `clear` of a code, as of the time `at`."""
    report = {
        "kind": kind,
        "source": FAULT_SOURCE,
        "code": code,
        "component": {"type": "node", "name": None},
        "observed_at": to_text(at),
        "message": message,
        "evidence": evidence[:MAX_EVIDENCE] or message,
        "attributes": {"look": probe, **attributes},
    }
    return json.dumps(report).encode() + b"\n"


SOURCE = "ethtool-stats"
TIMEOUT_SECONDS = 10.0
_HEADING = b"NIC statistics:"
_WORST_FIRST = (Outcome.HUNG, Outcome.CRASHED, Outcome.OVERSIZED, Outcome.FAILED)


@dataclass(slots=True)
class InterfaceStatistics:
    """The probe `ethtool -S` over all interfaces; none is repeated while its process cannot be killed."""

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
    """Return only the heading and the counters with a threshold; ingest ignores all others."""
    wanted = {name.encode() for name in counters_of(SOURCE)}
    return b"\n".join([_HEADING, *(line for line in output.splitlines() if _name(line) in wanted), b""])


def _name(line: bytes) -> bytes:
    """Return the name of a counter; some drivers write the queue before it, as in `[0]: rx_errors: 1`."""
    return line.rpartition(b":")[0].rpartition(b"]:")[2].strip()


EXPORTER_TIMEOUT_SECONDS = 5
MAX_FILES = 4000
MAX_INTERFACES = 32
_THIS_HOST = ("127.0.0.1", "localhost", "::1")
_PORT_FILES = ("state", "phys_state", "rate", "link_layer")
_COUNTER_FOLDERS = ("counters", "hw_counters")

# Error texts of nvidia-smi about a lost or damaged GPU or a broken driver; the decoder of its XML reads them too.
NVIDIA_SMI_ERRORS = (
    b"Unable to determine the device handle for GPU",
    b"WARNING: infoROM is corrupted at gpu",
    b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver",
    b"Failed to initialize NVML: Driver",
    b"Failed to initialize NVML: Unknown Error",
    b"No devices were found",
    b"No devices found",
)


def node_probes(settings: AgentSettings) -> tuple[Probe, ...]:
    """Return the probes of this node. The scheduler skips a probe whose interval is 0."""
    timeout = settings.probe_timeout_seconds
    nvidia_smi = partial(start_process, (settings.nvidia_smi, "-q", "-x"))
    dcgm_health = partial(start_process, (settings.dcgmi, "health", "-c", "-j"))
    ip_link = partial(start_process, ("ip", "-j", "link"))
    exporter = partial(BackgroundRead, partial(scrape, settings.exporter_url))
    counters = partial(_start_port_counters, settings.sysfs / "class" / "infiniband")
    interfaces = _physical_interfaces(settings.sysfs / "class" / "net")
    statistics = InterfaceStatistics(interfaces)
    ethtool = Probe("ethtool", SOURCE, statistics.start, settings.counter_seconds, statistics.timeout_seconds)
    return (
        Probe(
            "nvidia-smi",
            "nvidia-smi-xml",
            nvidia_smi,
            settings.smi_seconds,
            timeout,
            b"<",
            "smi",
            known_errors=NVIDIA_SMI_ERRORS,
        ),
        Probe("dcgmi health", "dcgm-health", dcgm_health, settings.health_seconds, timeout, b"{"),
        Probe("ip link", "link-state", ip_link, settings.link_seconds, timeout, b"["),
        Probe("exporter", "dcgm-metrics", exporter, settings.exporter_seconds, min(timeout, EXPORTER_TIMEOUT_SECONDS)),
        Probe(
            "rdma counters",
            "rdma-counters",
            counters,
            settings.counter_seconds,
            timeout,
            second_source="infiniband-state",
        ),
        *([ethtool] if interfaces else []),
    )


def _physical_interfaces(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if (path / "device").exists())[:MAX_INTERFACES]
    except OSError:
        return []


def scrape(url: str) -> bytes:
    """Read the metrics page of an exporter on this host. Reading stops when the page exceeds 2 MiB.

    Raises ValueError if the URL has another host, FileNotFoundError if no exporter listens at the URL, and TimeoutError
    if the exporter sends nothing for 5 s or only a part of the page within 5 s. An HTTP error, or a response that is
    not HTTP, raises OSError.
    """
    if not _is_on_this_host(url):
        raise ValueError(f"the exporter is not on this host: {url}; allowed are http URLs of {', '.join(_THIS_HOST)}")
    deadline = time.monotonic() + EXPORTER_TIMEOUT_SECONDS
    page = bytearray()
    try:
        with urllib.request.urlopen(url, timeout=EXPORTER_TIMEOUT_SECONDS) as response:  # noqa: S310 - of this host
            while len(page) <= MAX_OUTPUT_BYTES and (chunk := response.read1(65536)):
                page += chunk
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the page is not complete after {EXPORTER_TIMEOUT_SECONDS} s: {url}")
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionRefusedError):
            raise FileNotFoundError(url) from None
        if isinstance(error.reason, TimeoutError):
            raise error.reason from None
        raise
    except http.client.HTTPException as error:
        raise OSError(f"the exporter's response is not valid HTTP: {type(error).__name__}: {url}") from None
    return bytes(page)


def _is_on_this_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "http" and parts.hostname in _THIS_HOST


def _start_port_counters(folder: Path) -> RunningProbe | ProbeResult:
    return BackgroundRead(partial(port_counters, folder)) if folder.is_dir() else ProbeResult(Outcome.ABSENT)


def port_counters(folder: Path) -> bytes:
    """Read state and counters with a threshold of each RDMA port, as lines `path: value`."""
    lines, with_threshold = [], counters_of("rdma-counters")
    for port in sorted(folder.glob("*/ports/*")):
        files = [port / name for name in _PORT_FILES]
        for name in _COUNTER_FOLDERS:
            files += sorted(file for file in (port / name).glob("*") if file.name in with_threshold)
        lines += [f"{file}: {value}" for file in files if (value := _read_value(file)) is not None]
    return "\n".join([*lines[:MAX_FILES], ""]).encode()


def _read_value(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
