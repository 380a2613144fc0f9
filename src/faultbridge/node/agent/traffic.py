"""Traffic: reports a node whose RDMA ports stop sending data after hours in which they sent a lot.

The collectives of a job that trains on several nodes send data at every step. If a rank waits for ever, no node of the
job sends any more, although its GPUs stay busy. A job that never trained on several nodes is not judged: it sends
nothing over these ports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from faultbridge.node.agent.probes import FAULT_SOURCE, encode_report

CODE = "train.traffic_stopped"
SAMPLE_SECONDS = 30.0
BUSY, FLAT = 10_000_000, 1_000_000
"""Bytes a second that all ports of a node send: from the first on it trains, up to the second one it does not."""

TRAINED_SECONDS = 600.0
"""Only the end of traffic that lasted so long in all is reported, so that the start of a job is no stop."""

_WORD = 4
"""`port_xmit_data` of an InfiniBand or RoCE port counts words of four bytes; `tx_bytes` of an EFA device, bytes."""


def sent_bytes(folder: Path) -> int | None:
    """Return the bytes that all RDMA ports have sent since the boot; None if no port counts them.

    `folder` is `/sys/class/infiniband`.
    """
    found = [sent for port in folder.glob("*/ports/*") if (sent := _sent(port)) is not None]
    return sum(found) if found else None


def _sent(port: Path) -> int | None:
    for name, unit in (("hw_counters/tx_bytes", 1), ("counters/port_xmit_data", _WORD)):
        try:
            return int((port / name).read_text(encoding="ascii")) * unit
        except (OSError, ValueError):
            continue
    return None


@dataclass(slots=True)
class TrafficWatch:
    """Watches what the RDMA ports of this node send, and reports once when it stops, and when it starts again.

    `read` returns the bytes sent so far, or None. With a `limit_seconds` of 0, nothing is watched.
    """

    read: Callable[[], int | None]
    limit_seconds: int
    _sampled: tuple[float, int] | None = None
    _trained: float = 0.0
    _flat: tuple[float, datetime] | None = None
    _reported: bool = False

    def poll(self, at: datetime, now: float) -> Iterator[tuple[str, bytes]]:
        """Take a sample if one is due; yield a fault or a clear, as source and body. `now` is monotonic."""
        if self.limit_seconds <= 0 or (self._sampled is not None and now - self._sampled[0] < SAMPLE_SECONDS):
            return
        before, total = self._sampled, self.read()
        self._sampled = None if total is None else (now, total)
        if before is None or total is None or total < before[1]:
            return  # the first sample, or a driver that was loaded again
        seconds = now - before[0]
        rate = (total - before[1]) / seconds
        if rate > FLAT:
            self._flat = None
            self._trained = min(self._trained + seconds, TRAINED_SECONDS) if rate >= BUSY else self._trained
            if self._reported:
                self._reported = False
                yield FAULT_SOURCE, encode_report("clear", "traffic", CODE, "the node sends data again", at, "")
        elif self._trained >= TRAINED_SECONDS:
            self._flat = self._flat or (before[0], at - timedelta(seconds=seconds))
            if now - self._flat[0] >= self.limit_seconds:
                self._reported, self._trained = True, 0.0
                message = (
                    f"no data sent for {int(now - self._flat[0])} s; the node sent more than {BUSY} bytes/s before"
                )
                yield FAULT_SOURCE, encode_report("fault", "traffic", CODE, message, self._flat[1], "")
