"""Finds the lines of a kernel log that may say something, without looking at the others one by one.

A healthy node's log is a hundred thousand lines of which none matters. Every line that a reader understands holds one
of the phrases below, so a piece of log is searched for each phrase as a whole, and only lines that hold one are cut
out. What `kernel_sieve` can leave out is not searched at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress, count, repeat
from operator import contains

PIECE = 64 * 1024
# A line longer than this ends where it is cut: the longest line that printk can write is a kilobyte.
MAX_LINE = 1024 * 1024
_XID = "Xid ("
# (a rare letter of the phrase, the phrase); where the letter does not occur, the phrase is not searched for
_PHRASES: tuple[tuple[str, str], ...] = (
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
        if end == 0 and len(rest) < MAX_LINE:
            rest += piece
            continue
        yield b"".join((rest, memoryview(piece)[:end]))
        rest = piece[end:]
    if rest:
        yield rest


def telling(text: str) -> list[str]:
    """Return the lines of a text that hold a phrase, in the order of the text."""
    lines: list[str] = []
    places: set[int] = set()
    if _XID in text:
        # Of a storm of Xids nothing is left to be searched for anything else.
        lines = text.split("\n")
        places.update(_holding(lines, _XID))
        text = "\n".join(line for place, line in enumerate(lines) if place not in places)
    for letter, phrase in _PHRASES if text else ():
        if letter in text and phrase in text:
            lines = lines or text.split("\n")
            places.update(_holding(lines, phrase))
    return [lines[place] for place in sorted(places)]


def _holding(lines: list[str], phrase: str) -> Iterator[int]:
    """Yield the places of the lines that hold a phrase."""
    return compress(count(), map(contains, lines, repeat(phrase)))
