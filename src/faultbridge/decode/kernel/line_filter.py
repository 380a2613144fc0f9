"""Selects the lines of a kernel log that may report a fault, without processing each line in Python.

A healthy node writes hundreds of thousands of harmless lines. `BenignLineFilter` learns how the common harmless lines
start, and skips them with one regular expression. `matching_lines` then returns only those of the other lines that
contain an Xid or a phrase that the decoder understands.

The filter relies on two facts: all messages of a piece start in the same column, and most harmless messages start with
one of a few words (`audit: `, `IPv6: `).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import compress, count, islice, repeat
from operator import contains, itemgetter

from faultbridge.decode.data import table
from faultbridge.decode.data.patterns import packaged_texts

# The frequent characters of kernel logs, the rarest of them first; others are rarer.
_FREQUENT = "jzqxRGVUFDKLHBNXOWQPTMISECAkwybvhgfpmu_()/cdlsnirtoae-.=:,9876543210[] "


@cache
def _phrases() -> Sequence[tuple[str, str]]:
    """Return the texts that a relevant line contains, each after its rarest character."""
    phrases = {*table("kernel")["phrases"], *(row.contains for row in packaged_texts("kernel"))}
    shortest = (one for one in sorted(phrases) if not any(other in one for other in phrases if other != one))
    return [(min(phrase, key=_FREQUENT.find), phrase) for phrase in shortest]


PIECE = 64 * 1024
_XID = "Xid"
# A longer line is cut here; printk writes at most one kilobyte a line.
MAX_LINE = 1024 * 1024


def pieces_of(body: bytes) -> Iterator[bytes]:
    """Divide a body that is in memory into pieces of 64 KiB."""
    return (body[start : start + PIECE] for start in range(0, len(body), PIECE))


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Regroup the pieces of a log so that each piece, except the last, ends at the end of a line.

    A line that is longer than `MAX_LINE` bytes may be divided.
    """
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


def matching_lines(text: str) -> list[str]:
    """Return the lines of a text that contain an Xid or a phrase of `_phrases`, in order."""
    if _XID in text and text.find("\n", 0, -1) < 0:  # one line, as in most records of an agent
        return [text.removesuffix("\n")]
    lines: list[str] = []
    positions: set[int] = set()
    if _XID in text:
        # Xid lines are removed first, so that a burst of them leaves little text for the other searches.
        lines = text.split("\n")
        positions.update(_positions(lines, _XID))
        text = "\n".join(line for position, line in enumerate(lines) if position not in positions)
    for letter, phrase in _phrases() if text else ():
        if letter in text and phrase in text:
            lines = lines or text.split("\n")
            positions.update(_positions(lines, phrase))
    return [lines[position] for position in sorted(positions)]


def _positions(lines: list[str], phrase: str) -> Iterator[int]:
    return compress(count(), map(contains, lines, repeat(phrase)))


_START = 32
_MAX_STARTS = 10_000
_MAX_WORDS = 64
# A word is learned if at least one in `_LEARN_SHARE` of the sampled lines starts with it.
_LEARN_SHARE = 64
_SAMPLED_LINES = 512
_MIN_BYTES = 4096
_LINE = 100
# Every prefix ends with one of these; the message starts after it.
_AT = rb"(?:\] |kernel: |[+-]\d\d:\d\d )"
_ANCHOR = re.compile(
    rb"(?:[a-z]{3,8} {0,5}:[a-z]{3,6} {0,3}: \d{4}-\d\d-\d\dT[\d:.,]{8,18}(?P<zone>[+-]\d\d:\d\d )"
    rb"|(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?)?"
    rb"(?: ?[\w.-]{1,64} (?=kernel: ))?(?:(?:kernel: )?\[[^\]\n]{8,40}(?P<bracket>\] )|(?P<kernel>kernel: )))"
)
# Mount messages differ only in the disk's name.
_MOUNTS = rb"EXT4-fs \([\w-]{1,16}\): m"
_MOUNTED = re.compile(rb"(" + _AT + rb")" + _MOUNTS)
# Harmless messages start with a subsystem's name and a colon.
_HARMLESS = re.compile(_AT + rb"(?:[^\s:]{1,20}: |nvidia-peermem |" + _MOUNTS + rb")")
_RELEVANT = re.compile(
    _AT
    + rb"(?:NVRM: (?:Xid|GPU|The|Ra|Rm|\(P|fall|knv|nv[AGC]|_issue)|nvidia-nvswitch\d{1,3}: SX|nvGpu|mlx|mce: |nfs: "
    rb"|NFS: |nvidia: |VFS: |unregister_net|Lustre|nf_conntrack: |Oops|sysrq: |watchdog: |BUG: |BTRFS"
    rb"|INFO: (?:task |rcu)|rcu: |[Nn]euron|blk_update_request: |end_request: |print_req_error: |systemd-networkd"
    rb"|kern|user|MESSAGE=|md|NETDEV|nvme\d{0,4}(?:c\d{1,4})?(?:n\d{1,5})?: |lockd: |\{|\[|<"
    rb"|[\w.-]{1,15}: (?:NIC )?Link|[^\s:]{1,15}: segf|[^\s:]{1,20}: attempt )"
)
# After these words the following text decides, so the whole start of the line is learned.
_AMBIGUOUS = re.compile(_AT + rb"(?:NVRM|nvidia-nvswitch\d{1,3}|INFO): ")
# A link going up or down can follow any interface name, and a failed access to a disk any name of a process.
_GUARD = rb"(?![LN]|attempt )"
_XIDS = re.compile(_XID.encode())
# Replacements of a line end within a line, by first byte: CR of a console, `#012` of rsyslog, a backslash and n.
_LINE_ENDS = {b"\r": re.compile(rb"\r(?!\n|\Z)"), b"#": re.compile(rb"#012"), b"\\": re.compile(rb"\\n[\[<{Nnk]")}
_STAMP = rb" {0,6}\d{1,10}\.\d{6}"
_NAME, _DRIVER = rb"kernel: ", rb"(?:NVRM|nvidia)"


def _heads_within(prefix: bytes) -> Iterator[re.Pattern[bytes]]:
    """Yield patterns that find the start (head) of a second message within a line."""
    bracket, name = prefix.rfind(b"["), prefix.rfind(_NAME)
    yield re.compile(rb"\[" + _not_in_prefix(bracket, rb"\[") + _STAMP)
    if bracket < 0 <= name:
        yield re.compile(_NAME + _not_in_prefix(name, _NAME) + _DRIVER)


def _not_in_prefix(place: int, head: bytes) -> bytes:
    """Return a part of a regular expression that prevents a match in the prefix of a line.

    `place` is the column at which the prefix contains `head`. A negative `place` means that the prefix does not contain
    `head`. The result is then empty.
    """
    before = rb".{%d}" % place if place > 0 else b""
    return rb"(?<!\n%b%b)" % (before, head) if place >= 0 else b""


class BenignLineFilter:
    """Skips lines that start like harmless lines of the same log; keeps lines that may report a fault."""

    def __init__(self) -> None:
        self._starts = _StartCache()
        self._words: dict[bytes, None] = {}
        self._patterns: dict[int, re.Pattern[bytes]] = {}
        self._heads: dict[int, tuple[re.Pattern[bytes], ...]] = {}

    def remaining(self, text: bytes) -> str:
        """Return the lines of a piece of the log that may report a fault.

        Returns the whole piece if it is small, if the prefix of its lines is unknown, or if a skipped line may contain
        an Xid or a second message.
        """
        # A small piece is not worth learning from.
        anchor = _ANCHOR.match(text) if len(text) > _MIN_BYTES else None
        if anchor is None:
            return text.decode("utf-8", "replace")
        column = anchor.start(anchor.lastgroup or 0)
        lines = self._unlearned(text, column)
        starts = list(map(itemgetter(slice(column, column + _START)), lines))
        if len(lines) * _LEARN_SHARE * _LINE > len(text):
            self._learn(starts)
        kept = b"\n".join(compress(lines, map(self._starts.__getitem__, starts)))
        # A record can be glued to a harmless line; then the whole piece is searched.
        is_complete = len(_XIDS.findall(text)) == kept.count(_XID.encode()) and not self._has_joints(text, column)
        return (kept if is_complete else text).decode("utf-8", "replace")

    def _has_joints(self, text: bytes, column: int) -> bool:
        """Return True if a line contains the start of a second message."""
        heads = self._heads.get(column)
        if heads is None:
            heads = self._heads[column] = tuple(_heads_within(text[:column]))
        if any(head.search(text, column) for head in heads):
            return True
        return any(first in text and end.search(text) for first, end in _LINE_ENDS.items())

    def _unlearned(self, text: bytes, column: int) -> Sequence[bytes]:
        """Return the lines that do not start with a word that was learned from harmless lines."""
        if not self._words:
            return text.split(b"\n")
        pattern = self._patterns.get(column)
        if pattern is None:
            learned = b"|".join(self._words)
            pattern = self._patterns[column] = re.compile(rb"\n(?s:.{%d})(?!%s)[^\n]*" % (column, learned))
        end = text.find(b"\n")
        first = text if end < 0 else text[:end]
        return [first, *(line[1:] for line in pattern.findall(text))]

    def _learn(self, starts: Sequence[bytes]) -> None:
        """Learn the words with which many harmless messages start.

        `starts` has the first bytes of each message that starts with no learned word. Only the first `_SAMPLED_LINES`
        messages are counted. If there would be more than `_MAX_WORDS` words, all earlier words are forgotten.
        """
        sampled = list(islice(starts, _SAMPLED_LINES))
        words = Counter(_word_pattern(start) for start in sampled if not self._starts[start])
        fresh = [word for word, count in words.most_common(_MAX_WORDS) if count * _LEARN_SHARE > len(sampled)]
        if not fresh:
            return
        if len(self._words) + len(fresh) > _MAX_WORDS:
            self._words.clear()
        self._words |= dict.fromkeys(fresh)
        self._patterns.clear()


class _StartCache(dict[bytes, bool]):
    """Caches, by the first 32 bytes of a line's message, whether the line may report a fault."""

    def __missing__(self, start: bytes) -> bool:
        if len(self) >= _MAX_STARTS:
            self.clear()
        relevant = self[start] = _HARMLESS.match(start) is None or _RELEVANT.match(start) is not None
        return relevant


def _word_pattern(start: bytes) -> bytes:
    """Return a regular expression for lines that may be skipped because they start like a harmless line.

    `start` is the start of the harmless message. Usually, a message may be skipped if it starts with the same word. If
    a fault can also start with this word, a message may be skipped only if its first 32 bytes equal `start`. If `start`
    is then shorter than 32 bytes, the expression matches nothing.
    """
    word = _HARMLESS.match(start)
    if word is None or _AMBIGUOUS.match(start):
        # A line shorter than the compared start may be the start of a relevant line.
        return re.escape(start) if len(start) == _START else rb"(?!)"
    mounted = _MOUNTED.match(start)
    return re.escape(mounted[1]) + _MOUNTS if mounted else re.escape(word[0]) + _GUARD
