"""Decodes `kernel-log`: kernel messages about GPUs, NVSwitches, PCIe and the host.

It reads text of dmesg, /dev/kmsg, syslog and journald: one message per line, after any of the prefixes that
`frames.prefix` strips. `xid` reads NVIDIA's numbered errors, and `host` reads all other messages.

Times: a time with a time zone as printed; without a zone, it is taken as UTC; without a year, it is the latest such
date that is at most a day after receipt. Seconds since boot become the attribute `uptime`. Units: as printed. Errors:
`Rejected(no_framing)` if no line is a kernel message. Source: Linux 4 to 6, NVIDIA's open GPU kernel modules.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TypeVar

from faultbridge.decode.frames.chain import framed_lines, framed_pieces, single_lines
from faultbridge.decode.frames.clock import iso_instant
from faultbridge.decode.frames.collector import unwrapped
from faultbridge.decode.frames.decoder import Decoded, Hints
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.joined_lines import SIGNATURE, candidates, parts_of, wrapped_message
from faultbridge.decode.frames.journal import is_journal, journal_lines
from faultbridge.decode.frames.line import Item, Line
from faultbridge.decode.frames.prefix import USER, KernelMessage, unprefixed
from faultbridge.decode.frames.values import lazy_pattern
from faultbridge.decode.kernel.host import DriverMessageReader, HostReader
from faultbridge.decode.kernel.line_filter import PIECE, BenignLineFilter, matching_lines, pieces_of, whole_lines
from faultbridge.decode.kernel.xid import SxidReader, read_xid
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import Clear, Fault, Observation
from faultbridge.model.values import replace

# Finds the crash dumps of an earlier boot, which pstore kept, in a kernel log.
#
# Grammar: a first line `Panic#1 Part1`, then lines `<LEVEL>[UPTIME] TEXT`. The dump ends at a heading `==> FILE <==`,
# at the end of the log, or at a line without a level if the other lines of the dump have one. Times and units: none.
# Errors: none. Source: Linux's fs/pstore/platform.c.

_Observation = TypeVar("_Observation", Fault, Clear, Fault | Clear)
_PSTORE_START = rb"(?:Panic|Oops|Emergency|Restart|Halt|Poweroff|Shutdown)#\d{1,6} Part\d{1,6}\b"
_HEAD = lazy_pattern(rb"^[ \t\r]{0,16}" + _PSTORE_START + rb"[^\n]*", re.MULTILINE)
_LEVEL = lazy_pattern(rb"\s{0,16}<\d{1,3}>")
_END = lazy_pattern(rb"^==> [^\n]{1,512} <==", re.MULTILINE)
_END_OF_LEVELS = lazy_pattern(rb"^(?=\S)(?!<\d{1,3}>|" + _PSTORE_START + rb")", re.MULTILINE)


@dataclass(slots=True)
class DumpSplitter:
    """Splits one log, read in pieces, into crash dumps and other text.

    A dump can continue in the next piece.
    """

    _end: re.Pattern[bytes] | None = None

    def parts(self, text: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield the parts of the next piece of the log in order, each with True if it belongs to a crash dump."""
        position = 0
        while position < len(text):
            search_from = position
            if self._end is None:
                # Most logs have no dump: the search for a fixed text is faster than that of the pattern.
                head = _HEAD.search(text, position) if b" Part" in text else None
                if head is None:
                    yield text[position:], False
                    return
                if head.start() > position:
                    yield text[position : head.start()], False
                self._end = _END_OF_LEVELS if _LEVEL.match(text, head.end()) else _END
                position, search_from = head.start(), head.end()
            end = self._end.search(text, search_from)
            stop = end.start() if end else len(text)
            if end is not None:
                self._end = None
            if stop > position:
                yield text[position:stop], True
            position = stop


def of_previous_boot(observation: _Observation) -> _Observation:
    """Mark a fault as a fault of an earlier boot. A clear is returned unchanged.

    A fault without a time is only recorded: it gets severity `info` and no action.
    """
    if not isinstance(observation, Fault):
        return observation
    earlier = replace(observation, attributes={**observation.attributes, "boot": "previous"})
    return earlier if earlier.observed_at else replace(earlier, severity=Severity.INFO, action=Action.NONE)


_ANSI = lazy_pattern(rb"\x1b\[[0-9;]{0,16}[A-Za-z]")
# A pretty-printed journal names the kernel beside each message.
_TRANSPORT = lazy_pattern(
    rb'"_TRANSPORT" {0,4}: {0,4}"kernel"|"dmesg" {0,4}: {0,4}\[|^ {0,8}_TRANSPORT=kernel$', re.MULTILINE
)
_XID_RECORD = lazy_pattern(r"NVRM: {0,64}Xid {0,64}\(")
_MAX_FRAMING_LINES = 10_000
# The fabric manager writes to the same journal and the same syslog.
_SERVICE = lazy_pattern(r"detected NVSwitch |\[tid \d|(?:nv|nvidia)-fabricmanager|NVIDIA fabric manager", re.IGNORECASE)
_MAX_SERVICE_LINES = 100_000
_MAX_RECOGNIZED_LINES = 200
# `dmesg -H` prints date and minute on the first line of a minute, and else the seconds since the line before.
_HUMAN_TIME = lazy_pattern(
    rb"^(?:(\[[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d\])|\[ {1,8}\+\d{1,10}\.\d{1,9}\])", re.MULTILINE
)
# A message without a prefix is recognized by the driver name or phrase at its start.
_BARE = lazy_pattern(
    r"NVRM: |nvidia(?:-nvswitch\d|-modeset:|-nvlink:|-uvm:| [0-9a-f]{4}:|: )"
    r"|mlx[45]_|infiniband |efa |ena |pcieport |pciehp |dpc |nvme:? |block nvme"
    r"|nvme\d{1,4}n\d{1,5}: .{1,60}@ LBA|sd \d{1,4}:\d|EXT4-fs|XFS \(|md/?raid"
    r"|nfs: server|NFS: |lockd: server|Lustre(?:Error)?: "
    r"|Panic#\d|watchdog: |BUG: |INFO: |task \S{1,32}:\d+ blocked|Out of memory|oom-kill|Memory cgroup|Killed process"
    r"|Kernel panic|blk_update_request|end_request|Buffer I/O|I/O error, dev|mce: |EDAC |NETDEV WATCHDOG"
    r"|Port module event|(?:\S{1,255} )?systemd-networkd\["
)


def decode(body: bytes, hints: Hints) -> Decoded:
    """Return the faults and clears in a kernel log."""
    items = framed_lines(body)
    if items is not None:
        return decode_items(items, hints)
    if len(body) <= PIECE:  # most records
        return decode_items(journal_lines([body]) if is_journal(body) else (body,), hints)
    return decode_pieces(pieces_of(body), hints)


def decode_pieces(pieces: Iterable[bytes], hints: Hints) -> Decoded:
    """Decode a log of any length piece by piece, so that the log need not fit into memory."""
    return decode_items(framed_pieces(journal_lines(whole_lines(pieces))), hints)


def decode_items(texts: Iterable[bytes | Item], hints: Hints) -> Decoded:
    """Decode a log: pieces of whole lines, or lines, perhaps with the facts of their frames."""
    reader = _LogReader(hints.received_at)
    for text in texts:
        if isinstance(text, bytes):
            reader.read(text)
        else:
            reader.read_item(text)
    if not reader.framed:
        raise Rejected("no_framing", "no line has the form of a kernel message")
    return Decoded(reader.result(), reader.unparsed)


# One Xid after the prefix that the kernel or `dmesg` writes, without a character that can start a second message.
_PLAIN = re.compile(
    rb"(?:[0-7],\d{1,20},(\d{1,12})(\d{6}),-;|\[ {0,6}(\d{1,10}\.\d{1,9})\] "
    rb"|(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d) )?(NVRM: Xid \([ !\"$-Z^-~]{16,400})\n?"
)


def decode_plain(body: bytes, _hints: Hints) -> Decoded | None:
    """Return the fault of a record that is one line with an Xid; None for any other record."""
    found = _PLAIN.fullmatch(body)
    if found is None or body.count(b"NVRM:") > 1:
        return None
    seconds, micros, uptime, at, line = found.groups()
    message = KernelMessage(line.decode("ascii"), framed=True)
    if at is not None:
        message.observed_at = iso_instant(at.decode("ascii"))
    elif uptime is not None:
        message.uptime = uptime.decode("ascii")
    elif seconds is not None:
        message.uptime = f"{int(seconds)}.{micros.decode('ascii')}"
        message.facility = "kern"
    fault = read_xid(message)
    return Decoded((fault,)) if isinstance(fault, Fault) else None


def recognize(body: bytes) -> bool:
    """Return whether a body is probably a kernel log, judged by the starts of its first lines."""
    text = text_of(body)
    if "HealthMonitoringAgentDetectionEvent" in text or "<nvidia_smi_log" in text:
        return False
    lines = islice(framed_lines(body) or text.split("\n", _MAX_RECOGNIZED_LINES), _MAX_RECOGNIZED_LINES)
    return any(_is_kernel_line(line) for line in lines) or _TRANSPORT.search(body) is not None


class _LogReader:
    def __init__(self, received_at: datetime | None) -> None:
        self.framed = False
        self.unparsed = 0
        self._received_at = received_at
        self._unframed = 0
        self._filter = BenignLineFilter()
        self._minute: bytes | None = None
        self._found: list[Fault | Clear] = []
        self._of_service: list[Item] = []
        self._gpu = DriverMessageReader(self._found)
        self._sxid = SxidReader(self._found)
        self._host = HostReader(self._gpu, self._found)
        self._dumps: DumpSplitter | None = None

    def read(self, text: bytes, frame: Line | None = None) -> None:
        """Add the observations in a piece of whole lines. `frame` has the facts of the frame around all of them."""
        text = _ANSI.sub(b"", text) if b"\x1b" in text else text
        text = text.replace(b"\0", b"\n") if b"\0" in text else text
        # The search for one byte is much faster, and most logs end it here.
        if self._minute is not None or (b"+" in text and (b"[  +" in text or b"[ +" in text)):
            text = _HUMAN_TIME.sub(self._with_minute, text)
        if self._dumps is None and b"#" in text and b" Part" in text:  # the search for one byte is much faster
            self._dumps = DumpSplitter()
        for part, is_dump in ((text, False),) if self._dumps is None else self._dumps.parts(text):
            first = len(self._found)
            for line in matching_lines(self._filter.remaining(part)):
                self._read_line(line if frame is None else replace(frame, text=line))
            if is_dump:
                self._found[first:] = map(of_previous_boot, self._found[first:])
        # A matching line usually has a prefix too, so most logs need no second pass over their lines.
        if not self.framed and self._unframed < _MAX_FRAMING_LINES:
            lines = text_of(text).split("\n", _MAX_FRAMING_LINES)[:_MAX_FRAMING_LINES]
            self._unframed += len(lines)
            self.framed = any(_BARE.match(line) is not None or unprefixed(line).framed for line in lines)

    def read_item(self, item: Item) -> None:
        """Add the observations in a line, or in the lines of a message in a frame."""
        if isinstance(item, str):
            self.read(item.encode("utf-8", "replace"))
            return
        self.framed |= not item.at_of_store
        for line in (item,) if item.at_of_store else single_lines(item):
            self.read(line.text.encode("utf-8", "replace"), line)

    def _with_minute(self, stamp: re.Match[bytes]) -> bytes:
        """Return the last minute that `dmesg -H` printed, in place of a relative time."""
        self._minute = stamp[1] or self._minute
        return self._minute or stamp[0]

    def _read_line(self, line: Item) -> None:
        message = unprefixed(line, self._received_at)
        if isinstance(line, Line):
            message.observed_at = message.observed_at or line.at
            message.node = message.node or line.node
        if not self.framed:
            self.framed = message.framed or _BARE.match(message.text) is not None
        if message.text.startswith("NVRM: Xid (") and message.text.find("NVRM:", 1) < 0:
            observation = read_xid(message)
            if observation is not None:
                self._found.append(observation)
                return
        before = len(self._found) + self.unparsed
        is_read = self._read_parts(message)
        if not is_read and (wrapped := wrapped_message(message, self._received_at)) is not None:
            is_read = self._read_parts(wrapped)
        if is_read:
            self.framed = True
            if message.text.count("Xid") > 1:  # a quoted record is not read, but it is counted
                read = len(self._found) + self.unparsed - before
                self.unparsed += max(0, len(_XID_RECORD.findall(message.text)) - read)
            return
        text = line if isinstance(line, str) else line.text
        if _SERVICE.search(text) and len(self._of_service) < _MAX_SERVICE_LINES:
            self._of_service.append(line)
        elif SIGNATURE.search(text):
            self.unparsed += 1

    def _read_parts(self, message: KernelMessage) -> bool:
        parts, left = parts_of(message, self._received_at)
        self.unparsed += left
        understood = [self._read_message(part) or any(map(self._read_message, candidates(part))) for part in parts]
        return any(understood)

    def _read_message(self, message: KernelMessage) -> bool:
        text = message.text
        if text.startswith("NVRM: Xid"):
            observation = read_xid(message)
            self._found.extend([observation] if observation is not None else [])
            return observation is not None
        if text.startswith("nvidia-nvswitch"):
            return self._sxid.read(message)
        if text.startswith("NVRM: ") or "nvGpuOps" in text or "fallen off the bus" in text:
            return self._gpu.read(message) or self._host.read(message)
        return self._host.read(message)

    def result(self) -> tuple[Observation, ...]:
        """Return the observations: first those of kernel messages, then those of the fabric manager."""
        of_kernel = self._gpu.with_device_names(self._gpu.without_explained())
        if not self._of_service:
            return of_kernel
        from faultbridge.decode.network import fabric_manager_log

        try:
            lines = (unwrapped(line) or line for line in self._of_service)
            found = fabric_manager_log.decode_lines(lines, Hints(received_at=self._received_at))
        except Rejected:
            return of_kernel
        return (*of_kernel, *found.observations)


def _is_kernel_line(line: Item) -> bool:
    message = unprefixed(line)
    certain = message.uptime is not None or message.facility not in {None, USER}
    text = line if isinstance(line, str) else line.text
    # Without a prefix, a program can start a line with the same word, so the line must hold a known phrase too.
    is_known = _BARE.match(message.text) is not None and (message.framed or matching_lines(text) != [])
    is_in_brackets = isinstance(line, str) and message.framed and line.startswith("[")
    return certain or is_in_brackets or is_known
