"""Follows a log: reads its lines, counts repeated lines, and stores them as records with a cursor.

The first of equal lines within five seconds is kept; one line with the number of repetitions replaces the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import NO_HINTS
from faultbridge.decode.kernel.kernel_log import decode
from faultbridge.decode.kernel.xid import SOURCE
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import Fault, Observation
from faultbridge.node.agent.cursors import Cursor, CursorFile
from faultbridge.node.agent.delivery.outbox import Outbox
from faultbridge.node.agent.delivery.records import OutgoingRecord, RecordPacker, Wait
from faultbridge.node.agent.host import AgentClock

# A line may wait only if the decoder reads it as a mild fault: information, or a warning that opens no case. Every
# other line is urgent: a serious fault, a line that the decoder does not understand, and each line of a log for which
# the agent has no decoder.

MAX_LINES = 20
"""More lines at once are urgent, because decoding them takes much processor time of the node."""


def can_wait(source: str, body: bytes) -> bool:
    """Return whether log lines may wait: 1 to 20 lines of the kernel log, each a mild fault."""
    lines = body.splitlines() if source == SOURCE else []
    return 0 < len(lines) <= MAX_LINES and all(map(_is_mild_line, lines))


def _is_mild_line(line: bytes) -> bool:
    try:
        decoded = decode(line, NO_HINTS)
    except Rejected:
        return False
    found = decoded.observations
    return not decoded.unparsed and bool(found) and all(map(_is_mild, found))


def _is_mild(observation: Observation) -> bool:
    if not isinstance(observation, Fault):
        return False
    fault = load_catalog().classify(observation)
    mild = fault.severity is not None and fault.severity.rank <= Severity.WARNING.rank
    return mild and not (fault.action is not None and fault.action.opens_case)


READ_BYTES_PER_POLL = 128 * 1024

REPEAT_WINDOW_SECONDS = 5.0
"""An equal line within this time is counted, not written again."""

FLUSH_DELAY_SECONDS = 0.25
"""A new line waits this long for related lines, so that they share a record."""

BURST_FLUSH_DELAY_SECONDS = 2.0
"""A new line waits this long instead if the last record was made less than five seconds ago."""

MAX_BATCH_BYTES = 128 * 1024
MAX_RECENT_LINES = 2000


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of a log, with the read position after it.

    `text` is the part that is compared with other lines. `prefix` is the part before it, such as the time, which
    differs between equal messages. `position` is None if the log has no positions.
    """

    prefix: str
    text: str
    position: Mapping[str, object] | None = None


class LineBatch:
    """Collects log lines for one record, and counts repeated lines; times are of a monotonic clock."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._size = 0
        self._repeats: dict[str, tuple[int, LogLine]] = {}
        self._recent: dict[str, float] = {}
        self._new_since: float | None = None
        self._repeats_since: float | None = None
        self._taken_at = float("-inf")
        self.position: Mapping[str, object] | None = None

    @property
    def full(self) -> bool:
        """Return whether the batch has reached its maximum size."""
        return self._size >= MAX_BATCH_BYTES

    def add(self, line: LogLine, now: float) -> None:
        """Add a line, or only count it if an equal line was added, or returned by `take`, within five seconds."""
        if line.position is not None:
            self.position = line.position
        text = line.text
        if now - self._recent.get(text, float("-inf")) < REPEAT_WINDOW_SECONDS:
            count, _ = self._repeats.get(text, (0, line))
            self._repeats[text] = (count + 1, line)
            self._repeats_since = now if self._repeats_since is None else self._repeats_since
            return
        if len(self._recent) >= MAX_RECENT_LINES:
            self._recent = {
                one: at for one, at in self._recent.items() if now - at < REPEAT_WINDOW_SECONDS and one in self._repeats
            }
        self._recent[text] = now
        self._write(line.prefix + text)
        self._new_since = now if self._new_since is None else self._new_since

    def due(self, now: float) -> bool:
        """Return whether the batch is full, or its new lines or repetitions have waited long enough."""
        delay = BURST_FLUSH_DELAY_SECONDS if now - self._taken_at < REPEAT_WINDOW_SECONDS else FLUSH_DELAY_SECONDS
        new_lines_due = self._new_since is not None and now - self._new_since >= delay
        repeats_due = self._repeats_since is not None and now - self._repeats_since >= REPEAT_WINDOW_SECONDS
        return self.full or new_lines_due or repeats_due

    def take(self, now: float) -> bytes:
        """Empty the batch and return its lines, then each repeated line with its number of repetitions."""
        for text, (count, line) in self._repeats.items():
            self._write(line.prefix + (text if count == 1 else f"message repeated {count} times: [ {text} ]"))
            self._recent[text] = now
        body = ("\n".join(self._lines) + "\n").encode("utf-8", "replace") if self._lines else b""
        self._lines, self._size, self._repeats = [], 0, {}
        self._new_since = self._repeats_since = None
        self._taken_at = now
        return body

    def _write(self, text: str) -> None:
        self._lines.append(text)
        self._size += len(text) + 1


class Log(ABC):
    """A log that can be read without blocking, starting at a stored position."""

    name: str
    source: str
    max_line_bytes: ClassVar[int]

    def __init__(self) -> None:
        self.lost_lines = 0
        self._partial: bytes | None = b""  # None: within a line that is too long

    def read(self, max_bytes: int) -> Iterator[LogLine]:
        """Yield the available lines, up to about `max_bytes`. A line that is too long is dropped and counted."""
        read = 0
        while read < max_bytes:
            chunk = self._read_chunk()
            if not chunk:
                return
            read += len(chunk)
            *complete, partial = ((self._partial or b"") + chunk).split(b"\n")
            if self._partial is None:
                if not complete:
                    continue
                del complete[0]
            self._partial = partial
            for raw in complete:
                if (line := self._parse_line(raw)) is not None:
                    yield line
            if len(partial) > self.max_line_bytes:
                self._drop_unfinished_line()

    def _drop_unfinished_line(self) -> None:
        self.lost_lines, self._partial = self.lost_lines + 1, None

    @abstractmethod
    def close(self) -> None:
        """Close the log and release its file or process."""

    @abstractmethod
    def _read_chunk(self) -> bytes:
        """Return the next bytes of the log without blocking, or empty bytes when none are available."""

    @abstractmethod
    def _parse_line(self, raw: bytes) -> LogLine | None:
        """Convert one raw line to a `LogLine`. Returns None for a line to skip."""


@dataclass(slots=True)
class Follower:
    """Follows one log, and stores its lines as records.

    The follower stops reading until the earlier records of the log are stored on disk, sent or refused. A line that is
    too long for a message is dropped and counted, and the cursor advances past the line.
    """

    log: Log
    cursors: CursorFile
    outbox: Outbox
    packer: RecordPacker
    clock: AgentClock
    _batch: LineBatch = field(default_factory=LineBatch)
    _pending: deque[OutgoingRecord] = field(default_factory=deque)
    _in_memory: bool = False

    def poll(self) -> None:
        """Read the available lines, and store the batch of lines as a record if it is due."""
        if not self._make_pending_safe():
            return
        now = self.clock.monotonic()
        for line in self.log.read(READ_BYTES_PER_POLL):
            self._batch.add(line, now)
        if self._batch.due(now):
            self.flush()

    def flush(self) -> None:
        """Store all lines that were read as records, unless earlier records of the log are not safe yet."""
        if self._pending:
            return
        body = self._batch.take(self.clock.monotonic())
        if not body:
            return
        position = self._batch.position
        cursor = None if position is None else Cursor(self.log.name, self.cursors.cursor.number + 1, position)
        records = list(self._pack(body))
        if records:
            self._pending.extend((*records[:-1], replace(records[-1], cursor=cursor)))
        elif cursor is not None:  # all lines were dropped, so no record can store their position
            self.cursors.advance(cursor)
        self._make_pending_safe()

    def _pack(self, body: bytes) -> Iterator[OutgoingRecord]:
        wait = Wait.HOLD if can_wait(self.log.source, body) else Wait.NONE
        record = self.packer.pack(self.log.source, body, self.clock.now(), wait=wait)
        if record is not None:
            yield record
            return
        lines = body.splitlines(keepends=True)
        if len(lines) == 1:
            self.outbox.dropped += 1
            return
        middle = len(lines) // 2
        yield from self._pack(b"".join(lines[:middle]))
        yield from self._pack(b"".join(lines[middle:]))

    def _make_pending_safe(self) -> bool:
        while self._pending and self._make_safe(self._pending[0]):
            self._pending.popleft()
            self._in_memory = False
        return not self._pending

    def _make_safe(self, record: OutgoingRecord) -> bool:
        """Store a record on disk, or in memory if it cannot be written and memory has room.

        Returns True if the record is stored on disk, sent or permanently refused. The cursor advances only then.
        """

        def advance() -> None:
            if record.cursor is not None:
                self.cursors.advance(record.cursor)

        if not self._in_memory and not self.outbox.store(record, advance):
            self._in_memory = self.outbox.hold_in_memory(record, advance)
            return False
        return not self._in_memory or self.outbox.is_safe(record)
