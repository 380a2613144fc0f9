"""Write: delivers published entries to the archive. Each line contains the stored text of one entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from faultbridge.model.storage.wire.archive_lines import ArchiveLine, line_of, object_key, pack
from faultbridge.model.storage.writes import Item
from faultbridge.record.ports.objects import ArchiveSink


class _ObjectWriter(Protocol):
    def put(self, key: str, body: bytes) -> None: ...


class ObjectSink(Struct, frozen=True):
    """An `ArchiveSink` for stacks without a Firehose delivery stream: it writes the archive objects itself."""

    objects: _ObjectWriter

    def put(self, lines: Sequence[ArchiveLine]) -> None:
        """Write one object for each cluster and day of the lines; the same lines give the same objects."""
        groups: dict[tuple[str, str], list[ArchiveLine]] = {}
        for line in lines:
            groups.setdefault((line.cluster, line.day), []).append(line)
        for (cluster, day), group in groups.items():
            body = pack(group)
            self.objects.put(object_key(cluster, day, body), body)


class WriteArchive(Struct, frozen=True):
    """Sends published entries to the archive. If an entry is lost on the way, the daily seal adds it."""

    sink: ArchiveSink

    def write(self, entries: Sequence[Item]) -> int:
        """Send entries, given as table items, to the archive; raises `Transient` unless all were accepted."""
        lines = [line_of(entry) for entry in entries]
        if lines:
            self.sink.put(lines)
        return len(lines)
