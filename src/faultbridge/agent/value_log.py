"""Value log: stores when the latest sets of counter values of each source were last sent.

The agent sends these times with the next counter sample. Ingest needs the times, because it rarely stores a sample
whose values equal those of the sample before. The log is written to the spool folder before the sample is stored as a
record, so that a restart of the agent does not lose the times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from faultbridge.agent.cursors import Cursor, CursorFile
from faultbridge.domain.records import SAMPLE_INTERVAL, SentValues
from faultbridge.domain.times import from_text, to_text
from faultbridge.storage.wire.message import DIGEST_LENGTH, MAX_LAST_SENT


@dataclass(slots=True)
class ValueLog:
    """The latest sets of counter values of each source, as digests, and the time when each was last sent.

    Without a folder, the log is only in memory.
    """

    folder: Path | None = None
    _last_sent: dict[str, Mapping[str, datetime]] = field(default_factory=dict)
    _files: dict[str, CursorFile] = field(default_factory=dict)

    def add(self, source: str, digest: str, at: datetime) -> SentValues:
        """Record that a set of values is sent at `at`; return its digest and when earlier sets were sent.

        - If the same set was sent less than five minutes before, the log keeps the earlier time, because ingest stores
          equal samples at most every five minutes.
        - If the log cannot be stored on disk, the agent would lose the time in a restart. The result then has no
          digest, so that ingest stores the sample although its values are unchanged.
        """
        digest, before = digest[:DIGEST_LENGTH], self._read(source)
        sent_at = before.get(digest)
        if sent_at is not None and timedelta(0) <= at - sent_at < SAMPLE_INTERVAL:
            at = sent_at
        latest = {digest: at, **{one: time for one, time in before.items() if one != digest}}
        self._last_sent[source] = dict(islice(latest.items(), MAX_LAST_SENT))
        return SentValues(digest if self._store(source) else None, before)

    def _read(self, source: str) -> Mapping[str, datetime]:
        if source not in self._last_sent:
            stored = self._file(source).cursor.position if self.folder is not None else {}
            self._last_sent[source] = {digest: from_text(at) for digest, at in stored.items()}
        return self._last_sent[source]

    def _store(self, source: str) -> bool:
        if self.folder is None:
            return True
        file = self._file(source)
        position = {digest: to_text(at) for digest, at in self._last_sent[source].items()}
        return file.advance(Cursor(file.cursor.log, file.cursor.number + 1, position))

    def _file(self, source: str) -> CursorFile:
        if source not in self._files:
            assert self.folder is not None  # noqa: S101 - checked by the callers
            self._files[source] = CursorFile(self.folder / f"values-{source}.cursor", source)
        return self._files[source]
