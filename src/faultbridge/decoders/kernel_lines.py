"""Finds the lines of a kernel log that may say something, without looking at the others one by one.

A healthy node's log is a hundred thousand lines of which none matters. Every line that a reader understands holds one
of the phrases below, so a piece of log is searched for each phrase as a whole, and only lines that hold one are cut
out. Where the lines are dmesg's own, all that begin with a word of no concern are left out before that: their
messages begin in the same column, so that a few operations on the list of all lines tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import compress
from operator import itemgetter

PIECE = 64 * 1024
# A line longer than this ends where it is cut: the longest line that printk can write is a kilobyte.
MOST_LINE = 1024 * 1024
_DMESG = re.compile(rb"\[[^\]\n]{8,40}\] ")
_BRACKET = b"] "
_HEAD = 24
_MOST_HEADS = 10_000
# A message of no concern begins with the name of a subsystem and a colon; these are the names that concern somebody.
_OTHERS = re.compile(rb"\] (?:[^\s:]{1,20}: |nvidia-peermem |EXT4-fs \([\w-]{1,16}\): m)")
_CONCERN = re.compile(
    rb"\] (?:NVRM: (?:Xid|GPU|The|\(P|fall|knv|nvGpu)|nvidia-nvswitch\d{1,3}: SX|nvGpu|mlx|mce: |watchdog: |BUG: "
    rb"|INFO: task |blk_update_request: |end_request: |systemd-networkd|kern|user|MESSAGE=|md|NETDEV|\{|\[|<"
    rb"|[\w.-]{1,15}: (?:NIC )?Link)"
)
# (a rare letter of the phrase, the phrase); where the letter does not occur, the phrase is not searched for
_PHRASES: tuple[tuple[str, str], ...] = (
    ("X", "Xid ("),
    ("V", "NVRM: GPU"),
    ("V", "NVRM: The"),
    ("V", "NVRM: (PCI"),
    ("V", "NVRM: fallen"),
    ("v", "NVRM: knvlink"),
    ("O", "nvGpuOpsReport"),
    ("B", "PCIe Bus Error: severity="),
    (":", ":    ["),
    ("H", "[Hardware Error]: "),
    ("D", "EDAC MC"),
    ("K", "Out of memory: Kill"),
    ("K", "Kernel panic - not syncing"),
    ("#", "soft lockup - CPU#"),
    ("K", "hard LOCKUP on cpu"),
    ("k", "blocked for more than "),
    ("/", "I/O error"),
    ("I", " failing I/O"),
    ("Q", " QID "),
    ("g", "Disabling device after reset failure"),
    ("D", "Disk failure on "),
    ("X", "EXT4-fs error"),
    ("X", "XFS ("),
    ("R", "Remounting filesystem read-only"),
    ("W", "Wait for completion (polling) timeout"),
    ("'", "send any completion for admin cmd"),
    ("q", "Admin queue is closed"),
    ("'", "Reset indication didn't turn on"),
    ("'", "Device isn't ready, abort com init"),
    ("F", "Failed to process command"),
    ("F", "Failed to submit command"),
    ("D", "Detected insufficient power"),
    ("P", "Port module event[error]"),
    ("x", "mlx5_cmd_out_err"),
    ("'", "device's health compromised"),
    ("W", "NETDEV WATCHDOG: "),
    ("d", "ost carrier"),
    ("G", "Gained carrier"),
    ("L", "Link is Down"),
    ("L", ": Link down"),
    # A journal writes a message that is no plain text as numbers, which hide every phrase.
    ("M", '"MESSAGE":['),
    ("M", '"MESSAGE" : ['),
)


def pieces_of(body: bytes) -> Iterator[bytes]:
    """Cut a body that is in memory into pieces."""
    return (body[start : start + PIECE] for start in range(0, len(body), PIECE))


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Regroup pieces into texts that end where a line ends."""
    rest = b""
    for piece in pieces:
        end = piece.rfind(b"\n") + 1
        if end == 0 and len(rest) < MOST_LINE:
            rest += piece
            continue
        yield b"".join((rest, memoryview(piece)[:end]))
        rest = piece[end:]
    if rest:
        yield rest


class Heads(dict[bytes, bool]):
    """Whether a line that begins so may concern anybody; each beginning is looked at once."""

    def __missing__(self, head: bytes) -> bool:
        """Look at a beginning for the first time."""
        if len(self) >= _MOST_HEADS:
            self.clear()
        concerns = self[head] = _OTHERS.match(head) is None or _CONCERN.match(head) is not None
        return concerns


def concerning(text: bytes, heads: Heads) -> str:
    """Leave out the lines that begin with a word of no concern; a text that is not dmesg's stays whole."""
    begun = _DMESG.match(text)
    if begun is None:
        return text.decode("utf-8", "replace")
    column = begun.end() - len(_BRACKET)
    lines = text.split(b"\n")
    head = itemgetter(slice(column, column + _HEAD))
    return b"\n".join(compress(lines, map(heads.__getitem__, map(head, lines)))).decode("utf-8", "replace")


def telling(text: str) -> list[str]:
    """Return the lines of a text that hold a phrase, in the order of the text."""
    begins: set[int] = set()
    for letter, phrase in _PHRASES:
        if letter in text and phrase in text:
            _collect(text, phrase, begins)
    return [_line(text, begin) for begin in sorted(begins)]


def _collect(text: str, phrase: str, begins: set[int]) -> None:
    place = text.find(phrase)
    while place >= 0:
        begins.add(text.rfind("\n", 0, place) + 1)
        end = text.find("\n", place)
        place = text.find(phrase, end) if end >= 0 else -1


def _line(text: str, begin: int) -> str:
    end = text.find("\n", begin)
    return text[begin:] if end < 0 else text[begin:end]
