"""Reads the log of a job, and finds its signals without running each pattern on every line."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from operator import itemgetter
from string import ascii_letters

from faultbridge.decode.data import packaged_json
from faultbridge.decode.data.patterns import Pattern, patterns_of
from faultbridge.decode.frames.prefix import ANSI
from faultbridge.decode.kernel.line_filter import whole_lines
from faultbridge.explain.signals.signal import (
    FAILURES,
    FRAGMENTS,
    HEDGES,
    MAX_SIGNALS,
    MAX_TEXT,
    Attempt,
    EvidenceStore,
    LogPattern,
    LogSpan,
    ReadContext,
    Role,
    Signal,
    Trust,
    host_of,
    matches_of,
    rank_of,
    rank_of_file,
    text_of,
    time_of,
)

MAX_LINE = 8192
EACH_END = 8
"""Number of lines with one pattern text that are always read at each end of a piece."""

_LETTERS = bytes(one if chr(one) in ascii_letters else ord(" ") for one in range(256))


def lines_with(piece: bytes, text: bytes, limit: int) -> Iterator[int]:
    """Yield the position of `text` in each line; of more than `limit` lines, in the first and the last."""
    position, number = piece.find(text), 0
    while position >= 0 and number < limit - EACH_END:
        yield position
        end = piece.find(b"\n", position)
        position = piece.find(text, min(end, position + MAX_LINE)) if end >= 0 else -1
        number += 1
    if position < 0:
        return
    last, found = len(piece), 0
    while found < EACH_END and (last := piece.rfind(text, position, last)) >= 0:
        yield last
        last = max(piece.rfind(b"\n", max(0, last - MAX_LINE), last), last - MAX_LINE, 0)
        found += 1


_TRACEBACK = "Traceback (most recent call last)"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_TAG = re.compile(r"^(?:\[[^\]]{0,64}\]:? ?|\([^)]{0,64}\) ?){1,4}")
_NCCL_STATE = "NCCL INFO"
_LINE_END = re.compile(r"[\r\n]")
_MAX_CHAIN = 8
_INTRODUCTION_LINES = 2
_LINES_AFTER = 2


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An error in its log: its line, its position in the line, and the text before and after the line."""

    line: str
    position: int
    before: bytes
    after: bytes


@cache
def handled() -> tuple[Pattern, ...]:
    """Return the packaged patterns which show that a process handled an error near them and continued.

    `at` of a row states where the text may be:

    - `introduction`: in the first line of the traceback, or in the two lines above it
    - `frame`: in a frame of the traceback
    - `start`: in the line of the error, before the error
    - `line`: in the line of the error
    - `after`: in one of the next two lines
    """
    rows = packaged_json("explain/handled.json")["handled"]
    return patterns_of([{"pattern": re.escape(row["contains"]), "signals": ("*",), **row} for row in rows])


def how_handled(name: str, error: Surroundings) -> str:
    """Return the name of the pattern that shows how a process handled an error, "" if none does."""
    patterns = [one for one in handled() if any(fnmatchcase(name, glob) for glob in one.row["signals"])]
    own = {"start": [error.line[: error.position]], "line": [error.line]}
    if found := _first(patterns, own):
        return found
    introduction, frames, _ = _block_above(error)
    following = (one for one in _of_rank(error.after, error) if one.strip())
    around = {"introduction": introduction, "frame": frames, "after": list(islice(following, _LINES_AFTER))}
    return _first(patterns, around)


def frames_of(error: Surroundings) -> list[str]:
    """Return the lines of an error's traceback; of chained tracebacks, those of the uppermost one."""
    return _block_above(error)[2]


def is_chained(error: Surroundings) -> bool:
    """Return whether the process raised an error while it handled an earlier error."""
    if not any(one.encode() in error.before for one in _CHAINED):
        return False
    for line in reversed(_of_rank(error.before, error)):
        text = _TAG.sub("", line, count=1)
        if text.strip() and text[0] not in " \t" and _TRACEBACK not in text:  # the line above the traceback
            return any(one in line for one in _CHAINED)
    return False


def _first(patterns: Iterable[Pattern], texts: Mapping[str, Sequence[str]]) -> str:
    for one in patterns:
        if any(one.find(text) for place in one.row["at"] for text in texts.get(place, ())):
            return str(one.row["name"])
    return ""


def _of_rank(text: bytes, error: Surroundings) -> list[str]:
    """Return the lines of a text that the rank of an error wrote, without those about the state of NCCL."""
    rank = rank_of(error.line)
    return [one for one in _LINE_END.split(text_of(text)) if rank_of(one) == rank and _NCCL_STATE not in one]


def _block_above(error: Surroundings) -> tuple[list[str], list[str], list[str]]:
    """Return the introduction of the uppermost of chained tracebacks above an error, all frames, and its own ones."""
    lines = _of_rank(error.before, error) if _TRACEBACK.encode() in error.before else []
    introduction, frames, first, end = list[str](), list[str](), list[str](), len(lines)
    for number in range(_MAX_CHAIN):
        start = next((at for at in range(end - 1, -1, -1) if _TRACEBACK in lines[at]), None)
        if start is None or (number == 0 and not _is_open(lines[start], lines[start + 1 : end])):
            break
        above = [one for one in lines[:start] if one.strip()][-_INTRODUCTION_LINES:]
        introduction, first = [*above, lines[start]], lines[start + 1 : end]
        frames.extend(first)
        if not above or not any(one in above[-1] for one in _CHAINED):
            break
        end = start
    return introduction, frames, first


def _is_open(header: str, lines: Sequence[str]) -> bool:
    """Return whether a traceback has not ended yet: all lines below its header are indented."""
    column = header.index(_TRACEBACK)
    return all(one[column : column + 1] in {"", " ", "\t"} for one in lines)


MAX_LINES_OF_TEXT = MAX_SIGNALS
"""Lines of one log that are read for one pattern text; after that, only some lines of each piece."""

MIN_LINES_AT_END = 1024
"""Minimum number of lines that are read for one pattern text in each of the last pieces of a log."""

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
_ANSI = re.compile(ANSI.pattern.encode())
_ATTEMPT = "attempt."
_UNCLASSIFIED = "error.unclassified"
_ERROR = re.compile(
    rb"\b(?:[A-Z]\w{0,63})?(?:Error|Exception)\b(?=[:\[(]| *$)|\b(?:[Ee]rror|ERROR|FATAL|[Ff]atal|panic|FAILURE|died)\b"
    rb"|\b(?:failed|FAILED|not found|[Kk]illed|[Aa]borted|exceeds|exceeded)\b|[Ss]egmentation fault|core dumped",
    re.MULTILINE,
)
"""The start of an error in any program's words: only shown, never a reason for a verdict."""
_MAX_ERRORS = 64
_CONTAINER = re.compile(
    rb"Started:\s+(\S.{20,40}?)\s+Finished:\s+(\S[^\n]{20,40})"  # `kubectl describe`
    rb"|finishedAt\W{2,4}([\dTZ:-]{20})(?:(?!finishedAt)[^}]){0,512}startedAt\W{2,4}([\dTZ:-]{20})"
)
_PROGRESS = re.compile(rb"(?:\b[Ii]ter(?:ation)?|\b[Ss]tep|\b[Ee]poch|'loss')\W{1,12}\d")
_WORK = re.compile(rb"%s|_step\W{1,12}\d|\d{2,12}/\d{2,12} \[\d{1,3}:\d\d" % _PROGRESS.pattern)
_STEP = re.compile(
    rb"\b(?:[Ii]ter(?:ation)?|[Ss]tep)\W{1,12}(\d{1,12})\b[^\n]{0,512}?\b(?:loss|lr|grad|tokens|tgs|tps|mfu|time)\b"
    rb"|'loss': [^\n]{0,256}?'epoch': (\d{1,6}(?:\.\d{1,9})?)"
)


class JobLogReader:
    """Reads one job log in pieces; of a long line, at most 16 KiB around the text of a pattern."""

    def __init__(self, file: str, context: ReadContext, node: str | None = None) -> None:
        """Store the name of the file, the context and, if it is known, the node that wrote the file."""
        self._file, self._context, self._node = file, context, node
        self._received_at = context.hints.received_at
        self._patterns: dict[bytes, list[LogPattern]] = defaultdict(list)
        for one in context.patterns:
            self._patterns[one.pattern.contains.encode()].append(one)
        self._words = {text: text.translate(_LETTERS).split() for text in self._patterns}
        self._store, self._hosts = EvidenceStore(), frozenset(context.nodes.values())
        self._lines_of: Counter[bytes] = Counter()
        self._lines = 0
        self._first_at: datetime | None = None
        self._last_at: datetime | None = None
        self._near_at: datetime | None = None
        self._searched_to = 0
        self._progress: tuple[datetime | None, int | None] = (None, None)
        self._steps: deque[tuple[float, int, bytes]] = deque(maxlen=STEPS_OF_SURVIVAL)
        self._rises, self._least_rise, self._steps_made = 0, float("inf"), 0
        self._first_step_line: int | None = None
        self._attempts = [Attempt()]
        self._has_failed = False
        self._failed_step: float | None = None
        self._last: Signal | None = None
        self._attempt_start = self._failed_at = 0
        self._container: tuple[datetime | None, datetime | None] = (None, None)

    def read(self, pieces: Iterable[bytes]) -> tuple[list[Signal], LogSpan]:
        """Return the signals of the log, and the span that states which times and lines the log covers."""
        waiting: deque[bytes] = deque()
        for piece in whole_lines(pieces):
            waiting.append(_ANSI.sub(b"", piece) if b"\x1b" in piece else bytes(piece))
            if len(waiting) > END_PIECES:
                self._read_piece(waiting.popleft(), is_end=False)
        for piece in waiting:
            self._read_piece(piece, is_end=True)
        at, line = self._progress
        started, finished = self._container
        span = LogSpan(
            self._file, Trust.JOB, "job-log", self._node, started or self._first_at, finished or self._last_at,
            at, line, self._lines, ran_until=finished, attempts=tuple(self._attempts),
        )  # fmt: skip
        if len(self._steps) == STEPS_OF_SURVIVAL:
            _, line, text = self._steps[0]
            at, first = time_of(text_of(text), self._received_at), self._first_step_line
            span = replace(span, steps_at=at, steps_line=line, first_step_line=first, steps=self._steps_made)
        return self._store.signals(), replace(span, last=self._last)

    def _read_piece(self, piece: bytes, *, is_end: bool) -> None:
        hits = self._hits(piece, is_end=is_end) if is_end or any(one in piece for one in FRAGMENTS) else {}
        received_at = self._received_at
        self._first_at = self._first_at or time_of(text_of(piece[:_BEFORE]), received_at)
        self._searched_to = self._attempt_start = self._failed_at = 0
        counted, line_number = 0, self._lines + 1
        for start, patterns in sorted(hits.items(), key=itemgetter(0)):
            line_number += piece.count(b"\n", counted, start)
            counted = start
            self._find_restart(piece, start)
            self._read_line(piece, start, line_number, patterns)
        self._find_restart(piece, len(piece))
        self._read_progress(piece)
        self._read_steps(piece)
        self._attempts[-1] = self._attempt(piece, len(piece), self._last_step)
        for found in islice(_CONTAINER.finditer(piece), MAX_LINES_OF_TEXT):
            started, finished = (
                time_of(text_of(one), received_at) for one in (found[1] or found[4], found[2] or found[3])
            )
            before = self._container
            # Of the containers of a pod, the one that ran longest is that of the job.
            if started and finished and not (before[0] and before[1] and before[1] - before[0] > finished - started):
                self._container = started, finished
        self._near_at = self._last_at = time_of(text_of(piece[-_BEFORE:]), received_at, last=True) or self._last_at
        if text := piece.rstrip():
            line = text_of(text[max(text.rfind(b"\n"), text.rfind(b"\r")) + 1 :][-MAX_LINE:])
            number = self._lines + 1 + text.count(b"\n")
            self._last = self._signal("error.last_line", Role.CONTEXT, number, line, self._last_at)
        self._lines += piece.count(b"\n")

    def _hits(self, piece: bytes, *, is_end: bool) -> dict[int, list[LogPattern]]:
        """Return the offset of each line with a pattern's text; some of very many equal lines are skipped."""
        found: dict[int, list[LogPattern]] = defaultdict(list)
        # A text can only be in the piece if each of its words is, and a long piece has few different words.
        words = b" ".join({*piece.translate(_LETTERS).split()})
        for text, patterns in self._patterns.items():
            left = max(MIN_LINES_AT_END if is_end else 0, MAX_LINES_OF_TEXT - self._lines_of[text])
            if not all(word in words for word in self._words[text]):
                continue
            for position in lines_with(piece, text, left + 2 * EACH_END):
                self._lines_of[text] += 1
                found[_start_of_line(piece, position)].extend(patterns)
        return found

    def _read_line(self, piece: bytes, start: int, number: int, patterns: Iterable[LogPattern]) -> None:
        line = text_of(_line_at(piece, start))
        found = matches_of(patterns, line, lambda: frames_of(self._around(piece, start, line, 0)))
        if not found:
            return
        at = self._time(piece, start, line)
        rank = rank_of(line)
        rank = rank if rank is not None else rank_of_file(self._file)
        if any(pattern.name.startswith(_ATTEMPT) for pattern, _ in found):
            self._start_attempt(piece, start)
            self._attempt_start = start + len(_line_at(piece, start))
        for pattern, match in found:
            if pattern.role in FAILURES and not self._has_failed:
                self._has_failed, self._failed_at = True, start
                self._failed_step = self._step_before(piece, start)
            around = self._around(piece, start, line, match.start())
            handled = how_handled(pattern.name, around) if pattern.role is Role.INITIATING else ""
            part = f"{handled} {len(self._attempts)}"
            if self._store.is_new(pattern.name, at, rank=rank, part=part, line=number):
                signal = self._signal(pattern.name, pattern.role, number, line[max(0, match.start() - 120) :], at, rank)
                host = host_of(line)
                signal = replace(
                    signal,
                    node=match.groupdict().get("node") or signal.node or (host if host in self._hosts else None),
                    said=_DIGITS.sub("0", line[match.start() :][:MAX_SAID]),
                    handled=handled,
                    is_chained=pattern.role is Role.INITIATING and is_chained(around),
                    attempt=len(self._attempts) - 1,
                )
                self._store.add(signal, part)

    def _signal(
        self, name: str, role: Role, number: int, text: str, at: datetime | None, rank: int | None = None
    ) -> Signal:
        node = self._node or self._context.nodes.get(-1 if rank is None else rank)
        return Signal(name, role, Trust.JOB, self._file, number, text[:MAX_TEXT].strip(), at, node, rank)

    def _start_attempt(self, piece: bytes, start: int) -> None:
        """Start a new attempt if the current one failed: each rank may report the same restart."""
        error = self._error_of(piece, start)
        if not self._has_failed and error is None:
            return
        step = self._step_before(piece, self._failed_at if self._has_failed else start)
        self._attempts[-1] = self._attempt(piece, start, step)
        self._attempts.append(Attempt())
        self._has_failed = False

    def _attempt(self, piece: bytes, until: int, step: float | None) -> Attempt:
        """Return the current attempt up to a place in a piece."""
        has_worked = _WORK.search(piece, max(self._attempt_start, until - _TAIL), until) is not None
        return Attempt(step, self._error_of(piece, until), self._attempts[-1].has_worked or has_worked)

    def _step_before(self, piece: bytes, start: int) -> float | None:
        steps = list(_STEP.finditer(piece, max(0, start - _STEPS_TAIL), start))
        return _step(steps[-1]) if steps else self._last_step

    def _find_restart(self, piece: bytes, until: int) -> None:
        """Start a new attempt at a step below the last one before the failure: the job went back."""
        if self._has_failed and self._failed_step is not None:
            found = _STEP.search(piece, self._failed_at, until)
            if found is not None and _step(found) < self._failed_step:
                self._attempt_start = found.start()
                self._start_attempt(piece, found.start())
            else:  # a step is within a line, so no line is searched twice
                self._failed_at = found.end() if found is not None else max(self._failed_at, until)

    def _error_of(self, piece: bytes, until: int) -> Signal | None:
        """Return the first error in any words after the last progress of the attempt, up to a place in a piece."""
        known, start = self._attempts[-1].error, self._attempt_start
        progress = [one.end() for one in _PROGRESS.finditer(piece, max(start, until - _TAIL), until)]
        if progress:
            known, start = None, piece.find(b"\n", progress[-1], until) % (until + 1)
        for found in islice(_ERROR.finditer(piece, start, until), _MAX_ERRORS if known is None else 0):
            begin = _start_of_line(piece, found.start())
            line = text_of(_line_at(piece, begin))
            if not (HEDGES.search(line) or how_handled(_UNCLASSIFIED, self._around(piece, begin, line, 0))):
                number = self._lines + 1 + piece.count(b"\n", 0, begin)
                at = time_of(line, self._received_at) or self._near_at
                error = self._signal(_UNCLASSIFIED, Role.CONTEXT, number, line, at, rank_of(line))
                return replace(error, said=_DIGITS.sub("0", line[:MAX_SAID]))
        return known

    @property
    def _last_step(self) -> float | None:
        return self._steps[-1][0] if self._steps else None

    def _around(self, piece: bytes, start: int, line: str, position: int) -> Surroundings:
        end = start + len(_line_at(piece, start))
        return Surroundings(line, position, piece[max(0, start - MAX_LINE) : start], piece[end : end + _AFTER])

    def _time(self, piece: bytes, start: int, line: str) -> datetime | None:
        """Return the time in a line, else the last time found above the line; None if no time was found."""
        received_at = self._received_at
        before = piece[max(self._searched_to, start - _BEFORE) : start]
        self._near_at = time_of(text_of(before), received_at, last=True) or self._near_at
        self._searched_to = max(start, self._searched_to)
        return time_of(line, received_at) or self._near_at

    def _read_progress(self, piece: bytes) -> None:
        tail = piece[-_TAIL:]
        offsets = [one.start() for one in _PROGRESS.finditer(tail)]
        if not offsets:
            return
        offset = len(piece) - len(tail) + offsets[-1]
        start = piece.rfind(b"\n", max(0, offset - MAX_LINE), offset) + 1
        received_at, before = self._received_at, piece[max(0, start - _BEFORE) : start]
        at = time_of(text_of(_line_at(piece, start)), received_at) or time_of(text_of(before), received_at, last=True)
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
            number = _step(found)
            last = self._steps[-1][0] if self._steps else None
            if number == last:
                continue
            if last is None or number < last:
                self._steps.clear()
                self._rises, self._least_rise = 0, float("inf")
            else:
                self._rises, self._least_rise = self._rises + 1, min(self._least_rise, number - last)
            self._steps.append((number, line, _line_at(piece, piece.rfind(b"\n", 0, found.start()) + 1)))
            if self._rises >= STEPS_OF_SURVIVAL:  # fewer may be a coincidence
                self._steps_made = max(self._steps_made, int(self._rises * self._least_rise))


def _step(found: re.Match[bytes]) -> float:
    return float(found[1] or found[2])


def _start_of_line(piece: bytes, position: int) -> int:
    low = max(0, position - MAX_LINE)
    return max(piece.rfind(b"\n", low, position), piece.rfind(b"\r", low, position), low - 1) + 1


def _line_at(piece: bytes, start: int) -> bytes:
    line = piece[start : start + 2 * MAX_LINE]
    end = min((one for one in (line.find(b"\n"), line.find(b"\r")) if one >= 0), default=len(line))
    return line[:end]
