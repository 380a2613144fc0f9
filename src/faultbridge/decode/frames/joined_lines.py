"""Frame of joined lines: splits a log line into the kernel messages that it contains.

A line can contain several messages: collectors join lines, consoles print a message after `login: `, and the output of
two processors can be mixed. A message starts at the start of the line, or after a prefix within the line. In a line of
the driver, each further Xid or SXid also starts a message. An Xid line that is quoted inside another message is not
read as a message, because a user can write it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from faultbridge.decode.frames.collector import unwrap
from faultbridge.decode.frames.prefix import ANSI, DAEMON, USER, KernelMessage, unprefixed
from faultbridge.decode.frames.values import lazy_pattern
from faultbridge.decode.kernel.line_filter import matching_lines
from faultbridge.model.values import replace

MAX_PARTS = 16 * 1024
_MANY_LINES = 64
_MAX_CANDIDATES = 16
_RECORD = r"NVRM: {0,64}Xid {0,64}\(|nvidia-nvswitch\d{1,4}: SXid "
# Line ends that a collector replaced: CR of a console, `#012` of rsyslog, a backslash and n of JSON in JSON.
_LINE_END = lazy_pattern(r"[\r\n\0]{1,64}|#012|\\n(?=[\[<{]|NVRM|nvidia|kernel)")
# Every text with several messages contains one of these, or a second `NVRM:`.
_JOINTS = ("\r", "\n", "\0", "#012", "\\n", "[", "kernel: ", "nvidia-nvswitch")
_STAMP = lazy_pattern(
    r"(?<=[^\s])[ \t]{0,64}(?=(?:<\d{1,3}>)?\[ {0,6}\d{1,10}\.\d{6}(?: <[ \d.]{1,16}>)?\])"
    r"|(?= kernel: (?:NVRM|nvidia|\[))"
)
# A whole syslog prefix within a message of the kernel; a program with a process id can print one.
_SYSLOG = lazy_pattern(
    r"(?<=\S) {1,8}(?=(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.+Z-]{8,24}) [\w.-]{1,64} kernel: )"
)
_PROCESS = lazy_pattern(r"(?:\S{1,255} )?[\w./()@-]{1,64}\[\d{1,10}\]: ")
_NEXT_RECORD = lazy_pattern(rf"(?<=.)(?={_RECORD})", re.DOTALL)
_SPACES = lazy_pattern(r"[ \t]{2,1024}|\t")
_DRIVER = ("NVRM:", "nvidia-nvswitch")
# The start of each message that the readers accept; searched for after an unknown prefix.
_START = lazy_pattern(
    rf"{_RECORD}|NVRM: |nvGpuOps|mlx5_core [0-9a-f]{{4}}:|infiniband \w|(?:efa|ena) [0-9a-f]{{4}}:|block nvme|nvme "
    r"|\w{1,16} [0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: |EXT[234]-fs |XFS \(|BTRFS |md/raid|watchdog: |BUG: "
    r"|INFO: |task \S|Out of memory|Kernel panic|blk_update_request|end_request|Buffer I/O|I/O error, dev|mce: "
    r"|Memory failure: |\[Hardware Error\]|\{\d{1,6}\}\[Hardware|EDAC |NETDEV WATCHDOG|Port module event"
    r"|systemd-networkd\[|print_req_error: |Oops: |general protection fault[,:]|nfs: server |NFS: server |LustreError: "
    r"|Lustre: |VFS: file-max limit "
)
# A program named before the message: a line of syslog that the kernel did not write.
_PROGRAM = lazy_pattern(r"(?:\S{1,255} )?[\w./()@-]{1,64}(?:\[\d{1,10}\])?: ")
SIGNATURE = lazy_pattern(r"S?Xid[ \t]{0,64}\((?:PCI|invalid|[0-9a-fA-F]{4,8}:)|fallen off the bus|RmInitAdapter failed")


def parts_of(message: KernelMessage, received_at: datetime | None) -> tuple[Sequence[KernelMessage], int]:
    """Split a log line into its kernel messages; return these and the number of messages left out.

    `message` is the line after its prefixes were removed. A collector may have joined several lines into this line. If
    the collector joined more than 64 lines, only the first of them and those with an Xid or a known phrase are split
    into messages. Messages beyond the first `MAX_PARTS` are left out.
    """
    text = ANSI.sub("", message.text) if "\x1b" in message.text else message.text
    text = (_SPACES.sub(" ", text) if "  " in text or "\t" in text else text).strip()
    if not any(mark in text for mark in _JOINTS) and text.find("NVRM:", 1) < 0:
        message.text = text
        return (message,), 0
    lines = _LINE_END.split(text)
    if len(lines) > _MANY_LINES:
        lines = [lines[0], *matching_lines("\n".join(lines[1:]))]
    pieces = [piece for line in lines for piece in _pieces_of(line) if piece.strip()]
    parts = [_part(message, piece, received_at, is_first=n == 0) for n, piece in enumerate(pieces[:MAX_PARTS])]
    return parts, len(pieces) - len(parts)


def _pieces_of(line: str) -> list[str]:
    joined = _SYSLOG.split(line) if " kernel: " in line and not _PROCESS.match(line) else [line]
    pieces = [piece for one in joined for piece in _STAMP.split(one)]
    if line.lstrip().startswith(_DRIVER):
        return [part for piece in pieces for part in _NEXT_RECORD.split(piece)]
    return pieces


def _part(message: KernelMessage, text: str, received_at: datetime | None, *, is_first: bool) -> KernelMessage:
    """Return one message of a line: `text` is its text, and `message` has the prefixes of the line.

    The prefixes in `text` take precedence over those of the line. There is one exception: each message in a line that a
    program wrote is a message of a program. `is_first` states whether `text` is the first message of the line.
    """
    part = unprefixed(text, received_at)
    part.text = part.text.strip()
    part.observed_at = part.observed_at or message.observed_at
    part.node = part.node or message.node
    part.uptime = part.uptime or message.uptime
    part.boot_id = part.boot_id or message.boot_id
    part.framed = part.framed or message.framed
    part.count = max(part.count, message.count)
    part.claimed = part.claimed or message.claimed
    # A message that a user wrote stays one, whatever prefixes it contains.
    by_user = message.facility == USER or (not is_first and _is_of_program(message))
    part.facility = USER if by_user else part.facility or message.facility
    return part


def candidates(message: KernelMessage) -> Iterator[KernelMessage]:
    """Yield each part of a message that starts like a kernel message, after text that is no known prefix.

    - In a message of the kernel, such a part is yielded only if it follows exactly one word, or follows a letter or a
      digit without a space. Anywhere else it is a quotation.
    - In a message of a program, no part is yielded, because a user can write the message.
    - In a message of unknown origin, every such part is yielded as a claim, up to a limit.
    """
    if message.facility == USER or _is_of_program(message):
        return
    by_kernel = message.uptime is not None or message.facility == "kern"
    for number, found in enumerate(_START.finditer(message.text)):
        before = message.text[: found.start()]
        # Within a message of the kernel, a record is a quotation unless it is glued to a word or follows only one.
        is_record = not by_kernel or before[-1:].isalnum() or len(before.split(None, 2)) == 1
        if before and number < _MAX_CANDIDATES and is_record:
            claimed = message.claimed or not by_kernel
            yield replace(message, text=message.text[found.start() :], claimed=claimed)


def wrapped_message(message: KernelMessage, received_at: datetime | None) -> KernelMessage | None:
    """Return the message in a collector's JSON object after an unknown prefix, as a claim; None without an object."""
    start = message.text.find("{", 1)
    if start < 0 or unwrap(message.text[start:]) is None:
        return None
    return replace(_part(message, message.text[start:], received_at, is_first=False), claimed=True)


def _is_of_program(message: KernelMessage) -> bool:
    """Return whether the syslog line of a message names a program other than the kernel as its writer."""
    if message.facility == DAEMON:
        return True
    if not message.framed or message.facility is not None or message.uptime is not None:
        return False
    found = _PROGRAM.match(message.text)
    # The name may be that of a driver, which a record of its switch follows.
    return found is not None and _START.search(f"{found[0]}SXid ") is None
