"""Resource limits of the agent: maximum CPU, memory and disk use, and the pauses that limit CPU use."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CPU_SHARE = 0.01
"""Average share of one core for the agent and its child processes."""

CPU_BURST_SECONDS = 12.0
"""CPU time that is free before the average applies: start-up, the first probes, the first burst of log lines."""

MEMORY_BYTES = 64 * 1024 * 1024
"""Maximum resident memory of the agent process; above it the agent exits and its supervisor restarts it."""

DISK_BYTES = 64 * 1024 * 1024
MAX_PAUSE_SECONDS = 5.0
NICENESS = 19

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_IDLE_CLASS = 3 << 13
_PAGE_BYTES = resource.getpagesize()


def lower_priority() -> None:
    """Set the lowest CPU and disk priority that the system allows. Child processes inherit it."""
    with suppress(OSError):
        os.nice(NICENESS)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, 1, 0, _IDLE_CLASS)


def resident_bytes() -> int:
    """Return the resident memory of this process in bytes, or 0 if /proc cannot be read."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def cpu_seconds() -> float:
    """Return the CPU time in seconds that this process and its finished child processes have used."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


@dataclass(slots=True)
class CpuBudget:
    """Computes the pauses that limit average CPU use to a share of one core.

    - `started_at` is the time at which the limit starts; the methods receive the present time as `now`.
    - `used_at_start` is the CPU time used until `started_at`; the methods receive the CPU time until `now` as `used`.
    - `share` is the allowed share of one core, from 0 to 1.
    - `burst` is additional CPU time that may be used without a pause.

    Times are seconds of a monotonic clock. CPU times are seconds.
    """

    started_at: float
    used_at_start: float
    share: float = CPU_SHARE
    burst: float = CPU_BURST_SECONDS

    def pause(self, now: float, used: float) -> float:
        """Return the number of seconds to sleep now: 0 within the limit, and at most 5."""
        excess = (used - self.used_at_start) - self.burst - (now - self.started_at) * self.share
        return min(max(excess, 0.0) / self.share, MAX_PAUSE_SECONDS)

    def used_share(self, now: float, used: float) -> float:
        """Return the average share of one core that was used since `started_at`."""
        return (used - self.used_at_start) / max(now - self.started_at, 1.0)
