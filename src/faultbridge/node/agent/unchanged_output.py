"""Selects the probe output to send: changed output, and from time to time unchanged output.

AWS charges for each record. Changes of temperatures, loads and clocks do not count as changes of the output, because no
decoder reads these values. Unchanged output is sent again after ten minutes by default, and after twice this time for a
source that reports only counters.

Ingest divides the increase of a counter by the time between two samples, so it needs the times of both samples:

- If a counter changes after samples that were not sent, the last unsent sample is sent too, with its own time.
- Ingest rarely stores a sample whose values equal those of the sample before. Each record therefore states when the
  previous values were last sent (`value_log`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from faultbridge.decode.data.counters import READ_FIELDS
from faultbridge.model.records import SentValues
from faultbridge.node.agent.cursors import ValueLog
from faultbridge.node.agent.delivery.records import Wait

COUNTER_SOURCES = frozenset({"dcgm-metrics", "rdma-counters", "ethtool-stats"})
"""Sources whose faults depend on the time between two samples."""

SAMPLED_SOURCES = COUNTER_SOURCES | {"infiniband-state", "link-state"}
"""Sources whose samples ingest stores, to compare the next one with them."""

STATELESS_SOURCES, STATELESS_REPEATS = frozenset({"rdma-counters", "ethtool-stats"}), 2
"""Sources that report only counters, and the factor by which they repeat unchanged output less often.

A missing repetition hides nothing, because a counter that did not change has the same value. The factor is small
because counters that are older than half an hour are not compared with those of other nodes.
"""

# Values of nvidia-smi that change without a fault: its time, its list of processes, measurements with a unit, and the
# reasons for reduced clocks of a GPU that is idle or at its power limit.
_PROCESSES = re.compile(rb"<processes>.*?</processes>", re.DOTALL)
_TIME = re.compile(rb"(<timestamp>)[^<]*")
_MEASUREMENT = re.compile(rb">\d[\d.]* (C|W|MHz|%|MiB|[KMG]B/s|us|mV)<")
_STATE = re.compile(
    rb"<(performance_state|(?:clocks_(?:event|throttle)_reason_)"
    rb"(?:gpu_idle|sw_power_cap|applications_clocks_setting|sync_boost|display_clocks_setting|display_clock_setting))>[^<]*"
)


def _smi(body: bytes) -> bytes:
    body = _TIME.sub(rb"\1", _PROCESSES.sub(b"", body))
    return _STATE.sub(rb"<\1>", _MEASUREMENT.sub(rb">0 \1<", body))


def _metrics(body: bytes) -> bytes:
    return b"\n".join(line for line in body.splitlines() if re.split(rb"[{ ]", line, maxsplit=1)[0] in _METRIC_NAMES)


def _port_counters(body: bytes) -> bytes:
    return b"\n".join(line for line in body.splitlines() if b"counters/" in line)


def _port_states(body: bytes) -> bytes:
    return b"\n".join(line for line in body.splitlines() if b"counters/" not in line)


def _whole(body: bytes) -> bytes:
    return body


_METRIC_NAMES = frozenset(name.encode() for name in READ_FIELDS)
RELEVANT: Mapping[str, Callable[[bytes], bytes]] = {
    "nvidia-smi-xml": _smi,
    "dcgm-metrics": _metrics,
    "rdma-counters": _port_counters,
    "infiniband-state": _port_states,
    "dcgm-health": _whole,
    "link-state": _whole,
    "ethtool-stats": _whole,
}
"""For each source, a function that returns the part of an output that its decoder reads."""


class Selected(NamedTuple):
    """One probe output to send; `values` is set if ingest stores the samples of the source."""

    at: datetime
    body: bytes
    wait: Wait
    values: SentValues | None


@dataclass(slots=True)
class _Last:
    """The last sent output of a source: the hash of the part that ingest reads, and when it was sent.

    `sent_at` is seconds of a monotonic clock. `unsent` is the latest sample since `sent_at` that was not sent, with its
    wall clock time. It is None if there is no such sample, or if the source is not in `COUNTER_SOURCES`.
    """

    digest: bytes
    sent_at: float
    unsent: tuple[datetime, bytes] | None = None


@dataclass(slots=True)
class UnchangedOutput:
    """Selects the probe output to send. If `repeat_seconds` is 0, all output is sent."""

    repeat_seconds: float
    values: ValueLog = field(default_factory=ValueLog)
    _last: dict[str, _Last] = field(default_factory=dict)

    def select(self, source: str, body: bytes, at: datetime, now: float) -> Iterator[Selected]:
        """Yield the outputs to send when a source has a new output at `at` (monotonic: `now`).

        Output without a change of its `RELEVANT` part is sent only after `repeat_seconds`, or twice this time for
        `STATELESS_SOURCES`. If a counter changes after samples that were not sent, the last of these is yielded before
        the new output.
        """
        relevant, wait, values = RELEVANT.get(source), Wait.SHORT, None
        if relevant is not None:
            digest, last = hashlib.sha256(relevant(body)).digest(), self._last.get(source)
            repeat_seconds = self.repeat_seconds * (STATELESS_REPEATS if source in STATELESS_SOURCES else 1)
            if last is not None and last.digest == digest and now - last.sent_at < repeat_seconds:
                last.unsent = (at, body) if source in COUNTER_SOURCES else None
                return
            self._last[source] = _Last(digest, now)
            if last is not None and last.digest == digest:
                wait = Wait.HOLD
            elif last is not None and last.unsent is not None:
                unsent_at, unsent = last.unsent
                yield Selected(unsent_at, unsent, wait, self._values(source, last.digest, unsent_at))
            values = self._values(source, digest, at)
        yield Selected(at, body, wait, values)

    def _values(self, source: str, digest: bytes, at: datetime) -> SentValues | None:
        return self.values.add(source, digest.hex(), at) if source in SAMPLED_SOURCES else None

    def forget(self, source: str) -> None:
        """Forget the last output of a source, because it was not stored: the next one is sent even if it is equal."""
        self._last.pop(source, None)
