"""Entries on their way to the archive, from the stored bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from faultbridge.ports.objects import ArchiveSink
from faultbridge.storage.wire.archive_lines import ArchiveLine, line_of, object_key, pack


class _Keeps(Protocol):
    def put(self, key: str, body: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class ObjectSink:
    """An ArchiveSink that puts an object a batch, cluster and day itself, where no delivery stream does."""

    objects: _Keeps

    def put(self, lines: Sequence[ArchiveLine]) -> None:
        """Keep the lines; the same batch again is the same objects again."""
        parts: dict[tuple[str, str], list[ArchiveLine]] = {}
        for line in lines:
            parts.setdefault((line.cluster, line.day), []).append(line)
        for (cluster, day), part in parts.items():
            body = pack(part)
            self.objects.put(object_key(cluster, day, body), body)


@dataclass(frozen=True, slots=True)
class WriteArchive:
    """Hands published entries to the archive. What is lost on the way is completed from the table at the seal."""

    sink: ArchiveSink

    def __call__(self, entries: Sequence[Mapping[str, Any]]) -> int:
        """Archive entry items and return how many; raises Transient when some were not taken."""
        lines = [line_of(entry) for entry in entries]
        if lines:
            self.sink.put(lines)
        return len(lines)
