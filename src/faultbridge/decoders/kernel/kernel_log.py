"""Decodes `kernel-log`: kernel messages about GPUs, NVSwitches, PCIe and the host.

It reads text of dmesg, /dev/kmsg, syslog and journald: one message per line, after any of the prefixes that
`common.prefix` strips. `xid` and `sxid` read NVIDIA's numbered errors, `DriverMessageReader` reads the driver's other
errors, and `pcie` and `host` read all other messages.

Times: a time with a time zone as printed; without a zone, it is taken as UTC; without a year, it is the latest such
date that is at most a day after receipt. Seconds since boot become the attribute `uptime`. Units: as printed. Errors:
`Rejected(no_framing)` if no line is a kernel message. Source: Linux 4 to 6, NVIDIA's open GPU kernel modules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.decoder import Decoded, Decoder, Hints
from faultbridge.decoders.common.documents import text_of
from faultbridge.decoders.common.journal import is_journal, journal_lines
from faultbridge.decoders.common.lazy_pattern import lazy_pattern
from faultbridge.decoders.common.prefix import USER, KernelMessage, unprefixed
from faultbridge.decoders.common.wrapped_lines import joined_pieces, log_events, spread_events, wrapped_lines
from faultbridge.decoders.kernel.line_filter import PIECE, BenignLineFilter, matching_lines, pieces_of, whole_lines
from faultbridge.decoders.kernel.line_parts import SIGNATURE, candidates, parts_of, wrapped_message
from faultbridge.decoders.kernel.pstore import DumpSplitter, of_previous_boot
from faultbridge.decoders.kernel.xid import SOURCE, device_fault, gpu_at, read_xid
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import NODE_COMPONENT, Clear, ComponentType, Fault, Observation, normalize_pci
from faultbridge.errors import Rejected

if TYPE_CHECKING:
    from faultbridge.decoders.kernel.host import HostReader
    from faultbridge.decoders.kernel.human_times import MinuteCarrier
    from faultbridge.decoders.kernel.pcie import PcieReader
    from faultbridge.decoders.kernel.sxid import SxidReader

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
# A message without a prefix is recognized by the driver name or phrase at its start.
_BARE = lazy_pattern(
    r"NVRM: |nvidia[-_ ]|mlx[45]_|infiniband |efa |ena |pcieport |pciehp |dpc |nvme:? |block nvme"
    r"|nvme\d{1,4}n\d{1,5}: .{1,60}@ LBA|sd \d{1,4}:\d|EXT4-fs|XFS \(|md/?raid"
    r"|nfs: server|NFS: |lockd: server|Lustre(?:Error)?: "
    r"|Panic#\d|watchdog: |BUG: |INFO: |task \S{1,32}:\d+ blocked|Out of memory|oom-kill|Memory cgroup|Killed process"
    r"|Kernel panic|blk_update_request|end_request|Buffer I/O|I/O error, dev|mce: |EDAC |NETDEV WATCHDOG"
    r"|Port module event|(?:\S{1,255} )?systemd-networkd\["
)


def decode(body: bytes, hints: Hints) -> Decoded:
    """Return the faults and clears in a kernel log, also if a CloudWatch Logs record contains the log."""
    events = log_events(body)
    spread = spread_events(events) if events else None
    if events is not None and spread is None:
        return _decoded(((event.message.encode("utf-8", "replace"), event.at) for event in events), hints)
    # What is joined is decoded as lines; the events of an envelope keep their own times.
    joined = spread or wrapped_lines(body)
    if joined is None and len(body) <= PIECE:  # most records: one piece in which nothing is wrapped
        texts = journal_lines([body]) if is_journal(body) else (body,)
        return _decoded([(text, None) for text in texts], hints)
    return decode_pieces(pieces_of(joined or body), hints)


def decode_pieces(pieces: Iterable[bytes], hints: Hints) -> Decoded:
    """Decode a log of any length piece by piece, so that the log need not fit into memory."""
    return _decoded(((text, None) for text in journal_lines(joined_pieces(whole_lines(pieces)))), hints)


def _decoded(texts: Iterable[tuple[bytes, datetime | None]], hints: Hints) -> Decoded:
    reader = _LogReader(hints.received_at)
    for text, at in texts:
        reader.read(text, at)
    if not reader.framed:
        raise Rejected("no_framing", "no line has the form of a kernel message")
    return Decoded(reader.result(), reader.unparsed)


def recognize(body: bytes) -> bool:
    """Return whether a body is probably a kernel log, judged by the starts of its first lines."""
    text = text_of(wrapped_lines(body) or body)
    if "HealthMonitoringAgentDetectionEvent" in text or "<nvidia_smi_log" in text:
        return False
    lines = text.split("\n", _MAX_RECOGNIZED_LINES)[:_MAX_RECOGNIZED_LINES]
    return any(_is_kernel_line(line) for line in lines) or _TRANSPORT.search(body) is not None


class _LogReader:
    def __init__(self, received_at: datetime | None) -> None:
        self.framed = False
        self.unparsed = 0
        self._received_at = received_at
        self._unframed = 0
        self._filter = BenignLineFilter()
        self._minutes: MinuteCarrier | None = None
        self._found: list[Fault | Clear] = []
        self._of_service: list[str] = []
        self._gpu = DriverMessageReader(self._found)
        self._dumps: DumpSplitter | None = None

    @cached_property
    def _sxid(self) -> SxidReader:
        from faultbridge.decoders.kernel.sxid import SxidReader  # as HostReader

        return SxidReader(self._found)

    @cached_property
    def _pcie(self) -> PcieReader:
        from faultbridge.decoders.kernel.pcie import PcieReader  # as HostReader

        return PcieReader(self._found)

    @cached_property
    def _host(self) -> HostReader:
        # The pattern table is the slowest import at a cold start, and Xid lines do not need it.
        from faultbridge.decoders.kernel.host import HostReader

        return HostReader(self._found)

    def read(self, text: bytes, at: datetime | None = None) -> None:
        """Add the observations in a piece of whole lines. `at` is the time of lines that have no time."""
        text = _ANSI.sub(b"", text) if b"\x1b" in text else text
        text = text.replace(b"\0", b"\n") if b"\0" in text else text
        # The search for one byte is much faster, and most logs end it here.
        if self._minutes is not None or (b"+" in text and (b"[  +" in text or b"[ +" in text)):
            text = self._with_minutes(text)
        if self._dumps is None and b"#" in text and b" Part" in text:  # the search for one byte is much faster
            self._dumps = DumpSplitter()
        for part, is_dump in ((text, False),) if self._dumps is None else self._dumps.parts(text):
            first, first_failure = len(self._found), len(self._gpu.probe_failures)
            for line in matching_lines(self._filter.remaining(part)):
                self._read_line(line, at)
            if is_dump:
                self._found[first:] = map(of_previous_boot, self._found[first:])
                self._gpu.probe_failures[first_failure:] = map(
                    of_previous_boot, self._gpu.probe_failures[first_failure:]
                )
        # A matching line usually has a prefix too, so most logs need no second pass over their lines.
        if not self.framed and self._unframed < _MAX_FRAMING_LINES:
            self._find_framing(text_of(text).split("\n", _MAX_FRAMING_LINES)[:_MAX_FRAMING_LINES])

    def _with_minutes(self, text: bytes) -> bytes:
        from faultbridge.decoders.kernel.human_times import MinuteCarrier

        self._minutes = self._minutes or MinuteCarrier()
        return self._minutes.carried(text)

    def _read_line(self, line: str, at: datetime | None) -> None:
        message = unprefixed(line, self._received_at)
        message.observed_at = message.observed_at or at
        if not self.framed:
            self.framed = message.framed or _BARE.match(message.text) is not None
        if message.text.startswith("NVRM: Xid (") and message.text.find("NVRM:", 1) < 0:
            observation = read_xid(message)
            if observation is not None:
                self._found.append(observation)
                return
        before = len(self._found) + self.unparsed
        if self._read_parts(message) or self._read_wrapped(message):
            self.framed = True
            if message.text.count("Xid") > 1:  # a quoted record is not read, but it is counted
                read = len(self._found) + self.unparsed - before
                self.unparsed += max(0, len(_XID_RECORD.findall(message.text)) - read)
        elif _SERVICE.search(line) and len(self._of_service) < _MAX_SERVICE_LINES:
            self._of_service.append(line if at is None else json.dumps({"log": line, "time": at.isoformat()}))
        elif SIGNATURE.search(line):
            self.unparsed += 1

    def _read_wrapped(self, message: KernelMessage) -> bool:
        wrapped = wrapped_message(message, self._received_at)
        return wrapped is not None and self._read_parts(wrapped)

    def _read_parts(self, message: KernelMessage) -> bool:
        parts, left = parts_of(message, self._received_at)
        self.unparsed += left
        understood = [self._read_part(part) for part in parts]
        return any(understood)

    def _read_part(self, part: KernelMessage) -> bool:
        return self._read_message(part) or any(map(self._read_message, candidates(part)))

    def _read_message(self, message: KernelMessage) -> bool:
        text = message.text
        if text.startswith("NVRM: Xid"):
            observation = read_xid(message)
            self._found.extend([observation] if observation is not None else [])
            return observation is not None
        if text.startswith("nvidia-nvswitch"):
            return self._sxid.read(message)
        if text.startswith("NVRM: ") or "nvGpuOps" in text or "fallen off the bus" in text:
            return self._gpu.read(message)
        return self._pcie.read(message) or self._host.read(message)

    def _find_framing(self, lines: Sequence[str]) -> None:
        self._unframed += len(lines)
        self.framed = any(_is_framed(line) for line in lines)

    def result(self) -> tuple[Observation, ...]:
        """Return the observations: first those of kernel messages, then those of the fabric manager."""
        of_kernel = self._gpu.with_device_names(self._gpu.without_duplicate_losses())
        return (*of_kernel, *self._faults_of_service()) if self._of_service else of_kernel

    def _faults_of_service(self) -> tuple[Observation, ...]:
        from faultbridge.decoders.network import fabric_manager_log

        try:
            body = "\n".join(self._of_service).encode("utf-8", "replace")
            return fabric_manager_log.decode(body, Hints(received_at=self._received_at))
        except Rejected:
            return ()


def _is_framed(line: str) -> bool:
    return _BARE.match(line) is not None or unprefixed(line).framed


def _is_kernel_line(line: str) -> bool:
    message = unprefixed(line)
    certain = message.uptime is not None or message.facility not in {None, USER}
    return certain or (message.framed and line.startswith("[")) or _BARE.match(message.text) is not None


DECODER = Decoder(
    name=SOURCE,
    summary="dmesg, /dev/kmsg, syslog and journald text of the kernel: GPUs, switches, PCIe, NICs, disks, memory, CPUs",
    example="[ 8123.617543] NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
    recognize=recognize,
    decode=decode,
    decode_pieces=decode_pieces,
    can_be_silent=True,
)


LOST_CODE = "xid.79"
INIT_CODE = "host.gpu_init_failed"
SAME_LOSS = timedelta(minutes=5)
_MAX_BOOTS = 64  # of all nodes in one input; bounds the comparisons of a crafted log
_MAX_CLOCK_STEP = timedelta(minutes=1)  # a node restarts more slowly, so a larger step is another boot
_BDF = r"([0-9a-fA-F]{0,8}:?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_UUID = lazy_pattern(rf"NVRM: GPU at PCI:{_BDF}: (GPU-[0-9a-fA-F-]{{8,40}})$")
_SERIAL = lazy_pattern(r"NVRM: GPU Board Serial Number: ([0-9A-Za-z]{4,32})$")
_LOST = lazy_pattern(rf"NVRM: (?:The NVIDIA )?GPU {_BDF}.{{0,80}}has fallen off the bus", re.DOTALL)
_LOST_START = lazy_pattern(rf"NVRM: The NVIDIA GPU {_BDF}(?: \(PCI ID: .{{1,80}})?$")
_LOST_END = lazy_pattern(r"(?:NVRM: )?(?:system )?(?:has )?fallen off the bus and is not responding to commands")
_PROBE_FAILED = lazy_pattern(r"NVRM: (The NVIDIA probe routine failed for \d{1,3} device.{0,80})", re.DOTALL)
_LOST_MIDDLE = "NVRM: (PCI ID"
_INIT_FAILED = lazy_pattern(rf"NVRM: GPU {_BDF}: (RmInitAdapter failed!.{{0,200}})", re.DOTALL)
_UVM_FATAL = lazy_pattern(
    r"(?:NVRM: )?(nvGpuOpsReportFatalError: uvm encountered global fatal error.{0,200})", re.DOTALL
)
_NVLINK_TRAINING = lazy_pattern(r"NVRM: (knvlink\w{1,80}: .{0,60}Rx ?Det(?:ect)? ?Link ?Mask.{0,60})", re.IGNORECASE)


@dataclass(slots=True)
class DriverMessageReader:
    """Reads driver messages, and appends their faults to `found`, the list of observations of the input.

    A failed probe of a device is added to `probe_failures` instead.
    """

    found: list[Fault | Clear]
    _names: dict[str, dict[str, str]] = field(default_factory=dict)
    _last_named: str | None = None
    _pending_loss: KernelMessage | None = None
    _unnumbered: set[int] = field(default_factory=set)
    probe_failures: list[Fault] = field(default_factory=list)

    def read(self, message: KernelMessage) -> bool:
        """Read a driver message without an Xid. Returns False if the message is of another kind."""
        pending, self._pending_loss = self._pending_loss, None
        text = message.text
        if message.facility != USER and self._learn_names(text):
            return True
        if (found := _LOST.match(text)) is not None:
            self._lost(message, found[1])
        elif _LOST_START.match(text) is not None or (pending and text.startswith(_LOST_MIDDLE)):
            self._pending_loss = replace(pending, text=f"{pending.text}\n{text}") if pending else message
        elif pending and _LOST_END.match(text):
            first_line = _LOST_START.match(pending.text.partition("\n")[0])
            self._lost(replace(pending, text=f"{pending.text}\n{text}"), first_line[1] if first_line else "")
        elif (found := _INIT_FAILED.match(text)) is not None:
            self.found.append(device_fault(message, INIT_CODE, gpu_at(found[1]), found[2]))
        elif (found := _PROBE_FAILED.match(text)) is not None:
            failed = device_fault(message, INIT_CODE, NODE_COMPONENT, found[1])
            known = self.probe_failures
            if len(known) < _MAX_BOOTS and not any(_same_boot(one, failed) for one in known):
                self.probe_failures.append(failed)
        elif (found := _UVM_FATAL.match(text)) is not None:
            self.found.append(device_fault(message, "host.uvm_fatal", NODE_COMPONENT, found[1]))
        elif (found := _NVLINK_TRAINING.match(text)) is not None:
            self.found.append(device_fault(message, "host.nvlink_training_failed", NODE_COMPONENT, found[1]))
        else:
            return False
        return True

    def _learn_names(self, text: str) -> bool:
        found = _UUID.match(text)
        if found is not None:
            self._last_named = normalize_pci(found[1])
            self._names.setdefault(self._last_named, {})["uuid"] = found[2]
            return True
        found = _SERIAL.match(text)
        if found is not None and self._last_named is not None:
            self._names[self._last_named]["serial"] = found[1]
        return found is not None

    def _lost(self, message: KernelMessage, address: str) -> None:
        self._unnumbered.add(len(self.found))
        self.found.append(device_fault(message, LOST_CODE, gpu_at(address), "GPU has fallen off the bus."))

    def without_duplicate_losses(self) -> list[Fault | Clear]:
        """Return the observations without GPU losses that an Xid 79 of the same GPU also reports.

        The Xid 79 must be of the same boot. If both messages have a time, at most five minutes may be between them.

        The driver also logs that it could not probe a device. Such a probe failure is added only if no GPU of the same
        boot is lost or uninitialized, because such a GPU explains the failure.
        """
        if not self._unnumbered and not self.probe_failures:
            return self.found
        found = self._without_repeated_losses()
        known = [one for one in found if self.probe_failures and one.code in {LOST_CODE, INIT_CODE}]
        return [*found, *(one for one in self.probe_failures if not any(_same_boot(one, other) for other in known))]

    def _without_repeated_losses(self) -> list[Fault | Clear]:
        numbered: dict[str | None, list[Fault | Clear]] = {}
        for position, observation in enumerate(self.found):
            is_numbered = observation.code == LOST_CODE and position not in self._unnumbered
            # What a program wrote does not replace a message of the driver.
            if is_numbered and observation.attributes.get("facility") != USER:
                numbered.setdefault(observation.component.pci, []).append(observation)
        return [
            observation
            for position, observation in enumerate(self.found)
            if position not in self._unnumbered
            or not any(_same_time(observation, other) for other in numbered.get(observation.component.pci, ()))
        ]

    def with_device_names(self, found: Iterable[Fault | Clear]) -> tuple[Fault | Clear, ...]:
        """Return the observations. A GPU gets the UUID and serial number that the driver printed for it."""
        return tuple(map(self._with_names, found)) if self._names else tuple(found)

    def _with_names(self, observation: Fault | Clear) -> Fault | Clear:
        component = observation.component
        if component.type is not ComponentType.GPU or component.pci not in self._names:
            return observation
        names = self._names[component.pci]
        return replace(observation, component=replace(component, uuid=names.get("uuid"), serial=names.get("serial")))


def _same_time(observation: Fault | Clear, other: Fault | Clear) -> bool:
    """Return whether two messages about a GPU can be from the same boot and at most five minutes apart.

    Times are compared only if both messages have a time, and uptimes only if both have an uptime.
    """
    times = (_passed(observation, other), _uptime_passed(observation, other))
    return _same_boot(observation, other) and all(one is None or abs(one) <= SAME_LOSS for one in times)


def _same_boot(observation: Fault | Clear, other: Fault | Clear) -> bool:
    """Return whether two messages may be of the same boot of the same node.

    The result is False in these cases, and True in all others:

    - Both messages name a node, and the names differ. The same applies to boot ids.
    - Only one of the messages is marked as a message of an earlier boot.
    - Both messages have a time and an uptime, and the difference of the times is not the difference of the uptimes,
      with a tolerance of one minute.
    """
    passed, uptime_passed = _passed(observation, other), _uptime_passed(observation, other)
    if passed is not None and uptime_passed is not None and abs(passed - uptime_passed) > _MAX_CLOCK_STEP:
        return False
    names = ((one.node, one.attributes.get("boot_id")) for one in (observation, other))
    if any(first and second and first != second for first, second in zip(*names, strict=True)):
        return False
    return observation.attributes.get("boot") == other.attributes.get("boot")


def _passed(observation: Fault | Clear, other: Fault | Clear) -> timedelta | None:
    first, second = observation.observed_at, other.observed_at
    return None if first is None or second is None else second - first


def _uptime_passed(observation: Fault | Clear, other: Fault | Clear) -> timedelta | None:
    first, second = observation.attributes.get("uptime"), other.attributes.get("uptime")
    return None if first is None or second is None else timedelta(seconds=float(second) - float(first))
