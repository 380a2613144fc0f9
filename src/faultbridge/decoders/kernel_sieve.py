"""Leaves out the lines of a kernel log that begin with a word of no concern, without looking at them one by one.

Where a piece of log has one kind of prefix, its messages begin in the same column, and most of them with one of a few
words (`audit: `, `IPv6: `). These words are learnt from the log itself and become one expression that passes over
their lines; the few lines that it stops at are told apart by their beginnings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import compress, islice
from operator import itemgetter

_HEAD = 32
_MAX_HEADS = 10_000
_MAX_WORDS = 64
# A word is worth learning when one line in so many begins with it; that many lines are looked at to find out.
_WORTH = 64
_LOOKED_AT = 512
_FEW = 4096
_LINE = 100
# What stands right before a message, from which on its line is looked at: no prefix ends otherwise.
_AT = rb"(?:\] |kernel: |[+-]\d\d:\d\d )"
_ANCHOR = re.compile(
    rb"(?:[a-z]{3,8} {0,5}:[a-z]{3,6} {0,3}: \d{4}-\d\d-\d\dT[\d:.,]{8,18}(?P<zone>[+-]\d\d:\d\d )"
    rb"|(?:<\d{1,3}>)?(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?)?"
    rb"(?: ?[\w.-]{1,64} (?=kernel: ))?(?:(?:kernel: )?\[[^\]\n]{8,40}(?P<bracket>\] )|(?P<kernel>kernel: )))"
)
# Of mounts there are many, one disk after another.
_MOUNTS = rb"EXT4-fs \([\w-]{1,16}\): m"
_MOUNTED = re.compile(rb"(" + _AT + rb")" + _MOUNTS)
# A message of no concern begins with a subsystem's name and a colon; these are the names that concern somebody.
_OTHERS = re.compile(_AT + rb"(?:[^\s:]{1,20}: |nvidia-peermem |" + _MOUNTS + rb")")
_CONCERN = re.compile(
    _AT + rb"(?:NVRM: (?:Xid|GPU|The|\(P|fall|knv|nvGpu)|nvidia-nvswitch\d{1,3}: SX|nvGpu|mlx|mce: "
    rb"|watchdog: |BUG: |INFO: task |blk_update_request: |end_request: |systemd-networkd|kern|user|MESSAGE=|md|NETDEV"
    rb"|\{|\[|<|[\w.-]{1,15}: (?:NIC )?Link)"
)
# Words behind which it depends on what follows: of these the whole beginning of a line is learnt.
_DEPENDS = re.compile(_AT + rb"(?:NVRM|nvidia-nvswitch\d{1,3}|INFO): ")
# A link's coming and going stands behind whatever the interface is called.
_GUARD = rb"(?![LN])"


class Sieve:
    """What the pieces of one log have taught so far; it is wrong about no line, only quicker or slower."""

    def __init__(self) -> None:
        """Begin without knowing any word."""
        self._heads = _Heads()
        self._words: dict[bytes, None] = {}
        self._sieves: dict[int, re.Pattern[bytes]] = {}

    def concerning(self, text: bytes) -> str:
        """Return the lines of a piece that may concern anybody; a piece without a known prefix stays whole."""
        # A few lines teach nothing that would spare any of them a look.
        begun = _ANCHOR.match(text) if len(text) > _FEW else None
        if begun is None:
            return text.decode("utf-8", "replace")
        column = begun.start(begun.lastgroup or 0)
        lines = self._left(text, column)
        heads = list(map(itemgetter(slice(column, column + _HEAD)), lines))
        if len(lines) * _WORTH * _LINE > len(text):
            self._learn(heads)
        return b"\n".join(compress(lines, map(self._heads.__getitem__, heads))).decode("utf-8", "replace")

    def _left(self, text: bytes, column: int) -> Sequence[bytes]:
        """Return the lines that begin with no word that was learnt, the first line among them."""
        if not self._words:
            return text.split(b"\n")
        sieve = self._sieves.get(column)
        if sieve is None:
            passed = b"|".join(self._words)
            sieve = self._sieves[column] = re.compile(rb"\n(?s:.{%d})(?!%s)[^\n]*" % (column, passed))
        end = text.find(b"\n")
        first = text if end < 0 else text[:end]
        return [first, *(line[1:] for line in sieve.findall(text))]

    def _learn(self, heads: Sequence[bytes]) -> None:
        """Learn the words of no concern with which many of these lines begin."""
        looked_at = list(islice(heads, _LOOKED_AT))
        words = Counter(_word(head) for head in looked_at if not self._heads[head])
        fresh = [word for word, count in words.most_common(_MAX_WORDS) if count * _WORTH > len(looked_at)]
        if not fresh:
            return
        if len(self._words) + len(fresh) > _MAX_WORDS:
            self._words.clear()
        self._words |= dict.fromkeys(fresh)
        self._sieves.clear()


class _Heads(dict[bytes, bool]):
    """Whether a line that begins so may concern anybody; each beginning is looked at once."""

    def __missing__(self, head: bytes) -> bool:
        """Look at a beginning for the first time."""
        if len(self) >= _MAX_HEADS:
            self.clear()
        concerns = self[head] = _OTHERS.match(head) is None or _CONCERN.match(head) is not None
        return concerns


def _word(head: bytes) -> bytes:
    """Return the expression of what lines that begin so have in common."""
    word = _OTHERS.match(head)
    if word is None or _DEPENDS.match(head):
        # A line that is shorter than its beginning may be how one of concern begins.
        return re.escape(head) if len(head) == _HEAD else rb"(?!)"
    mounted = _MOUNTED.match(head)
    return re.escape(mounted[1]) + _MOUNTS if mounted else re.escape(word[0]) + _GUARD
