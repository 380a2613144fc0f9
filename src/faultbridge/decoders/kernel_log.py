"""`kernel-log`: dmesg, /dev/kmsg, syslog and journald text of a node's kernel, from the GPU down to the disks.

Grammar: one message a line behind any of the prefixes of `kernel_prefix`; Xid (`kernel_xid`), SXid (`kernel_sxid`),
lost GPUs that print neither (`kernel_gpu`), and the host's own troubles (`kernel_host`, `kernel_pcie`). Times: a
prefix with a zone is taken as it is, one without as UTC, one without a year as the last such date before receipt;
seconds since boot become the attribute `uptime` and no time. Errors: `Rejected(no_framing)` where no line is a
kernel's. Units: seconds, bytes and hexadecimal words stay as printed. Source: Linux 4 to 6 and the open GPU kernel
modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.decoders.base import Decoder, Hints
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.envelope import log_events
from faultbridge.decoders.kernel_gpu import GpuReader
from faultbridge.decoders.kernel_lines import PIECE, pieces_of, telling, whole_lines
from faultbridge.decoders.kernel_pcie import PcieReader
from faultbridge.decoders.kernel_prefix import KernelMessage, unprefixed
from faultbridge.decoders.kernel_sieve import Sieve
from faultbridge.decoders.kernel_sxid import SxidReader
from faultbridge.decoders.kernel_xid import SOURCE, read_xid
from faultbridge.domain.faults import Clear, Fault, Observation
from faultbridge.errors import Rejected

if TYPE_CHECKING:
    from faultbridge.decoders.kernel_host import HostReader

_FRAMED_AT_MOST = 10_000
_RECOGNISED_AT_MOST = 200
# Messages whose prefix was cut off are still known by the driver or the phrase that they begin with.
_BARE = re.compile(
    r"NVRM: |nvidia[-_ ]|mlx[45]_|infiniband |efa |ena |pcieport |nvme |block nvme|EXT4-fs|XFS |md/?raid|md\d* ?:"
    r"|watchdog: |INFO: task |task \S{1,32}:\d+ blocked|Out of memory|oom-kill|Memory cgroup|Killed process"
    r"|Kernel panic|blk_update_request|end_request|Buffer I/O|I/O error, dev|mce: |EDAC |NETDEV WATCHDOG"
    r"|Port module event|systemd-networkd\["
)


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Read every line of a log, or of the CloudWatch Logs record that carries it."""
    events = log_events(body)
    if events is None:
        return _decoded([body], hints) if len(body) <= PIECE else decode_pieces(pieces_of(body), hints)
    return _decoded(["\n".join(event.message for event in events).encode()], hints)


def decode_pieces(pieces: Iterable[bytes], hints: Hints) -> tuple[Observation, ...]:
    """Read a log of any length piece by piece; only what it tells is kept in memory."""
    return _decoded(whole_lines(pieces), hints)


def _decoded(texts: Iterable[bytes], hints: Hints) -> tuple[Observation, ...]:
    reading = _Reading(hints.received_at)
    for text in texts:
        if b"\0" in text:
            raise Rejected("binary", "the input holds NUL bytes, so it is not text")
        reading.read(text)
    if not reading.framed:
        raise Rejected("no_framing", "no line looks like a kernel log")
    return reading.result()


def recognize(body: bytes) -> bool:
    """Tell whether the first lines look like a kernel's: its prefix, or a driver's name where prefixes were cut."""
    text = text_of(body)
    if "HealthMonitoringAgentDetectionEvent" in text or "<nvidia_smi_log" in text:
        return False
    return any(_is_kernels(line) for line in text.split("\n", _RECOGNISED_AT_MOST)[:_RECOGNISED_AT_MOST])


class _Reading:
    """What one input has told so far."""

    def __init__(self, received_at: datetime | None) -> None:
        self.framed = False
        self._received_at = received_at
        self._unframed = 0
        self._sieve = Sieve()
        self._found: list[Fault | Clear] = []
        self._gpu = GpuReader(self._found)

    @cached_property
    def _sxid(self) -> SxidReader:
        return SxidReader(self._found)

    @cached_property
    def _pcie(self) -> PcieReader:
        return PcieReader(self._found)

    @cached_property
    def _host(self) -> HostReader:
        # Its table of patterns is what costs most at a cold start, and a storm of Xids asks for none of it.
        from faultbridge.decoders.kernel_host import HostReader

        return HostReader(self._found)

    def read(self, text: bytes) -> None:
        """Take the lines of a piece of log that say something."""
        for line in telling(self._sieve.concerning(text)):
            self._take(line)
        # A line that says something mostly shows its frame as well: then no line is looked at twice.
        if not self.framed and self._unframed < _FRAMED_AT_MOST:
            self._frame(text_of(text).split("\n", _FRAMED_AT_MOST)[:_FRAMED_AT_MOST])

    def _take(self, line: str) -> None:
        message = unprefixed(line, self._received_at)
        if not self.framed:
            self.framed = message.framed or _BARE.match(message.text) is not None
        if message.text.startswith("NVRM: Xid ("):
            seen = read_xid(message)
            if seen is not None:
                self._found.append(seen)
        elif message.text.startswith("nvidia-nvswitch"):
            self._sxid.read(message)
        else:
            self._other(replace(message, text=message.text.strip()))

    def _other(self, message: KernelMessage) -> None:
        if message.text.startswith("NVRM: ") or "nvGpuOps" in message.text:
            self._gpu.read(message)
        elif not self._pcie.read(message):
            self._host.read(message)

    def _frame(self, lines: Sequence[str]) -> None:
        self._unframed += len(lines)
        self.framed = any(_is_framed(line) for line in lines)

    def result(self) -> tuple[Observation, ...]:
        """Return the observations in the order of the input, the devices with all their names."""
        return self._gpu.named(self._gpu.without_repetitions())


def _is_framed(line: str) -> bool:
    return _BARE.match(line) is not None or unprefixed(line).framed


def _is_kernels(line: str) -> bool:
    message = unprefixed(line)
    certain = message.uptime is not None or message.facility is not None
    return certain or (message.framed and line.startswith("[")) or _BARE.match(message.text) is not None


DECODER = Decoder(
    name=SOURCE,
    summary="dmesg, /dev/kmsg, syslog and journald text of the kernel: GPUs, switches, PCIe, NICs, disks, memory, CPUs",
    example="[ 8123.617543] NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    recognize=recognize,
    decode=decode,
    decode_pieces=decode_pieces,
)
