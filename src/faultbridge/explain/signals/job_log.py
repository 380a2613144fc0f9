"""Reads the log of a job, and finds its signals without running each pattern on every line."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter

from faultbridge.decoders.kernel.line_filter import whole_lines
from faultbridge.explain.signals.evidence_store import MAX_SIGNALS, EvidenceStore
from faultbridge.explain.signals.handled import Surroundings, frames_of, how_handled, is_chained
from faultbridge.explain.signals.line_facts import host_of, rank_of, rank_of_file, time_of
from faultbridge.explain.signals.patterns import FRAGMENTS, LogPattern, group_by_text, matches_of
from faultbridge.explain.signals.signal import LogSpan, Role, Signal, Trust
from faultbridge.explain.signals.text_search import EACH_END, MAX_LINE, TextSearch

MAX_LINES_OF_TEXT = MAX_SIGNALS
"""Lines of one log that are read for one pattern text; after that, only some lines of each piece."""

MIN_LINES_AT_END = 1024
"""Minimum number of lines that are read for one pattern text in each of the last pieces of a log."""

MAX_TEXT = 400
MAX_SAID = 160
STEPS_OF_SURVIVAL = 2
"""An error after which the job reports this number of steps ended no rank."""

END_PIECES = 2
"""Number of pieces at the end of a log that are searched for every pattern text."""
_BEFORE = 4096
_AFTER = 1024
_TAIL = 64 * 1024
_STEPS_TAIL = 16 * 1024
_DIGITS = re.compile(r"\d{1,32}")
_PROGRESS = re.compile(rb"(?:\b[Ii]ter(?:ation)?|\b[Ss]tep|\b[Ee]poch|'loss')\W{1,12}\d")
_STEP = re.compile(
    rb"\b(?:[Ii]ter(?:ation)?|[Ss]tep)\W{1,12}(\d{1,12})\b[^\n]{0,512}?\b(?:loss|lr|grad|tokens|tgs|tps|mfu|time)\b"
    rb"|'loss': [^\n]{0,256}?'epoch': (\d{1,6}(?:\.\d{1,9})?)"
)


@dataclass(frozen=True, slots=True)
class JobContext:
    """The inputs for reading a job log: the patterns, the node of each rank, and the time of receipt."""

    patterns: tuple[LogPattern, ...]
    nodes: Mapping[int, str]
    received_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    """A series of increasing step numbers in a log: the number of increases and the smallest increase."""

    rises: int = 0
    least: float = float("inf")

    @property
    def steps(self) -> int:
        """Return the minimum number of training steps that the series proves; 0 for fewer than two increases."""
        return int(self.rises * self.least) if self.rises >= STEPS_OF_SURVIVAL else 0

    def risen(self, by: float) -> _Run:
        return replace(self, rises=self.rises + 1, least=min(self.least, by))


class JobLogReader:
    """Reads one job log in pieces.

    Of a long line, it reads at most 16 KiB around the fixed text of a pattern.
    """

    def __init__(self, file: str, context: JobContext, node: str | None = None) -> None:
        """Store the name of the file, the context and, if it is known, the node that wrote the file."""
        self._file, self._context, self._node = file, context, node
        self._patterns = group_by_text(context.patterns)
        self._search = TextSearch(self._patterns)
        self._store = EvidenceStore()
        self._lines_of: Counter[bytes] = Counter()
        self._lines = 0
        self._first_at: datetime | None = None
        self._last_at: datetime | None = None
        self._near_at: datetime | None = None
        self._searched_to = 0
        self._progress: tuple[datetime | None, int | None] = (None, None)
        self._steps: deque[tuple[float, int, bytes]] = deque(maxlen=STEPS_OF_SURVIVAL)
        self._run, self._steps_made = _Run(), 0
        self._first_step_line: int | None = None

    def read(self, pieces: Iterable[bytes]) -> tuple[list[Signal], LogSpan]:
        """Return the signals of the log, and the span that states which times and lines the log covers."""
        waiting: deque[bytes] = deque()
        for piece in whole_lines(pieces):
            waiting.append(bytes(piece))
            if len(waiting) > END_PIECES:
                self._read_piece(waiting.popleft(), is_end=False)
        for piece in waiting:
            self._read_piece(piece, is_end=True)
        at, line = self._progress
        span = LogSpan(
            self._file, Trust.JOB, "job-log", self._node, self._first_at, self._last_at, at, line, self._lines
        )
        if len(self._steps) == STEPS_OF_SURVIVAL:
            _, steps_line, text = self._steps[0]
            steps_at = time_of(_text(text), self._context.received_at)
            span = replace(
                span,
                steps_at=steps_at,
                steps_line=steps_line,
                first_step_line=self._first_step_line,
                steps=self._steps_made,
            )
        return self._store.signals(), span

    def _read_piece(self, piece: bytes, *, is_end: bool) -> None:
        hits = self._hits(piece, is_end=is_end) if is_end or any(one in piece for one in FRAGMENTS) else {}
        received_at = self._context.received_at
        self._first_at = self._first_at or time_of(_text(piece[:_BEFORE]), received_at)
        self._searched_to = 0
        counted, line_number = 0, self._lines + 1
        for start, patterns in sorted(hits.items(), key=itemgetter(0)):
            line_number += piece.count(b"\n", counted, start)
            counted = start
            self._read_line(piece, start, line_number, patterns)
        self._read_progress(piece)
        self._read_steps(piece)
        self._near_at = self._last_at = time_of(_text(piece[-_BEFORE:]), received_at, last=True) or self._last_at
        self._lines += piece.count(b"\n")

    def _hits(self, piece: bytes, *, is_end: bool) -> dict[int, list[LogPattern]]:
        """Return the offset of each line that contains the fixed text of a pattern, with the patterns to try.

        If very many lines contain the same text, some of these lines are skipped.
        """
        found: dict[int, list[LogPattern]] = defaultdict(list)
        known = self._search.positions(piece)
        for text, patterns in self._patterns.items():
            left = max(MIN_LINES_AT_END if is_end else 0, MAX_LINES_OF_TEXT - self._lines_of[text])
            for position in known.of(text, left + 2 * EACH_END):
                self._lines_of[text] += 1
                found[_start_of_line(piece, position)].extend(patterns)
        return found

    def _read_line(self, piece: bytes, start: int, number: int, patterns: Iterable[LogPattern]) -> None:
        line = _text(_line_at(piece, start))
        found = matches_of(patterns, line, lambda: frames_of(self._around(piece, start, line, 0)))
        if not found:
            return
        at = self._time(piece, start, line)
        rank = rank_of(line)
        rank = rank if rank is not None else rank_of_file(self._file)
        for pattern, match in found:
            around = self._around(piece, start, line, match.start())
            handled = how_handled(pattern.name, around) if pattern.role is Role.INITIATING else ""
            if self._store.is_new(pattern.name, at, rank=rank, part=handled, line=number):
                node = (
                    match.groupdict().get("node")
                    or self._node
                    or self._context.nodes.get(rank if rank is not None else -1)
                )
                text = line[max(0, match.start() - 120) :][:MAX_TEXT].strip()
                self._store.add(
                    Signal(
                        pattern.name,
                        pattern.role,
                        Trust.JOB,
                        self._file,
                        number,
                        text,
                        at,
                        node or self._host(line),
                        rank,
                        said=_DIGITS.sub("0", line[match.start() :][:MAX_SAID]),
                        handled=handled,
                        is_chained=pattern.role is Role.INITIATING and is_chained(around),
                    ),
                    handled,
                )

    def _around(self, piece: bytes, start: int, line: str, position: int) -> Surroundings:
        end = start + len(_line_at(piece, start))
        return Surroundings(line, position, piece[max(0, start - MAX_LINE) : start], piece[end : end + _AFTER])

    def _host(self, line: str) -> str | None:
        host = host_of(line)
        return host if host in set(self._context.nodes.values()) else None

    def _time(self, piece: bytes, start: int, line: str) -> datetime | None:
        """Return the time in a line, else the last time found above the line; None if no time was found."""
        received_at = self._context.received_at
        before = piece[max(self._searched_to, start - _BEFORE) : start]
        self._near_at = time_of(_text(before), received_at, last=True) or self._near_at
        self._searched_to = max(start, self._searched_to)
        return time_of(line, received_at) or self._near_at

    def _read_progress(self, piece: bytes) -> None:
        tail = piece[-_TAIL:]
        offsets = [one.start() for one in _PROGRESS.finditer(tail)]
        if not offsets:
            return
        offset = len(piece) - len(tail) + offsets[-1]
        start = piece.rfind(b"\n", max(0, offset - MAX_LINE), offset) + 1
        received_at, before = self._context.received_at, piece[max(0, start - _BEFORE) : start]
        at = time_of(_text(_line_at(piece, start)), received_at) or time_of(_text(before), received_at, last=True)
        self._progress = (at, self._lines + 1 + piece.count(b"\n", 0, start))

    def _read_steps(self, piece: bytes) -> None:
        """Read training steps in the last 16 KiB of a piece, and in its first 16 KiB if none was found yet."""
        if not self._steps:
            # Only the presence of a first step is needed: it shows that the program does not buffer its output.
            self._read_steps_of(piece, 0, min(_STEPS_TAIL, max(0, len(piece) - _STEPS_TAIL)))
        self._read_steps_of(piece, max(0, len(piece) - _STEPS_TAIL), len(piece))

    def _read_steps_of(self, piece: bytes, start: int, end: int) -> None:
        """Add new step numbers to the current increasing series; a lower number starts a new series."""
        counted, line = start, self._lines + 1 + piece.count(b"\n", 0, start)
        for found in _STEP.finditer(piece, start, end):
            line, counted = line + piece.count(b"\n", counted, found.start()), found.start()
            if self._first_step_line is None:
                self._first_step_line = line
            number = float(found[1] or found[2])
            last = self._steps[-1][0] if self._steps else None
            if number == last:
                continue
            if last is None or number < last:
                self._steps.clear()
                self._run = _Run()
            else:
                self._run = self._run.risen(number - last)
            self._steps.append((number, line, _line_at(piece, piece.rfind(b"\n", 0, found.start()) + 1)))
            self._steps_made = max(self._steps_made, self._run.steps)


def _start_of_line(piece: bytes, position: int) -> int:
    low = max(0, position - MAX_LINE)
    return max(piece.rfind(b"\n", low, position), piece.rfind(b"\r", low, position), low - 1) + 1


def _line_at(piece: bytes, start: int) -> bytes:
    line = piece[start : start + 2 * MAX_LINE]
    end = min((one for one in (line.find(b"\n"), line.find(b"\r")) if one >= 0), default=len(line))
    return line[:end]


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")
