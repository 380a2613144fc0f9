"""What the agent may cost its node, and how it keeps to that by itself."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CPU_SHARE = 0.01
"""Of one core, on average, with whatever the agent starts."""

CPU_BURST_SECONDS = 12.0
"""What may be used before the average counts: starting, the first look, a first storm."""

MEMORY_BYTES = 64 * 1024 * 1024
"""Resident memory of the agent itself; above it the agent ends and its supervisor starts it anew."""

DISK_BYTES = 64 * 1024 * 1024
MAX_PAUSE = 5.0
NICENESS = 19

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_IDLE_CLASS = 3 << 13
_PAGE_BYTES = resource.getpagesize()


def step_back() -> None:
    """Take the lowest place for processor and disk, as far as the system allows; children inherit it."""
    with suppress(OSError):
        os.nice(NICENESS)
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).syscall(number, 1, 0, _IDLE_CLASS)


def resident_bytes() -> int:
    """Return the resident memory of this process, or 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def cpu_seconds() -> float:
    """Return the processor time used by this process and by the children that ended."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


@dataclass(slots=True)
class Governor:
    """Says how long to pause so that the processor time used stays below a share of the time that passed.

    Times are seconds of a monotonic clock and of processor time since an arbitrary beginning.
    """

    began: float
    used_before: float
    share: float = CPU_SHARE
    burst: float = CPU_BURST_SECONDS

    def pause(self, now: float, used: float) -> float:
        """Return the seconds to rest now; what is not followed meanwhile waits in the kernel's own ring."""
        over = (used - self.used_before) - self.burst - (now - self.began) * self.share
        return min(max(over, 0.0) / self.share, MAX_PAUSE)

    def spent(self, now: float, used: float) -> float:
        """Return the share of one core used so far."""
        return (used - self.used_before) / max(now - self.began, 1.0)
