"""Reading an archive without its stack: every line once, in the order of recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from faultbridge.domain.times import to_text
from faultbridge.errors import Rejected
from faultbridge.ledger.timeline import Line, Wanted
from faultbridge.ports.objects import Archive
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.wire.archive_lines import ArchiveLine


@dataclass(frozen=True, slots=True)
class ReadArchive:
    """Reads the lines of a cluster, from S3 or from a folder that holds a copy."""

    archive: Archive

    def objects(self, cluster: str, wanted: Wanted | None = None) -> Iterator[str]:
        """List the objects of a cluster's lines, those of a window's days when one is given."""
        first = to_text(wanted.since)[:10] if wanted and wanted.since else ""
        last = to_text(wanted.until)[:10] if wanted and wanted.until else "~"
        for key in self.archive.list(layout.cluster_prefix(cluster)):
            if first <= layout.day_of(key) <= last:
                yield key

    def lines(self, keys: Iterable[str]) -> Iterator[ArchiveLine]:
        """Read objects, line after line as they are, repetitions too; `bad_object` names the one that is none."""
        for key in keys:
            try:
                yield from layout.unpack(self.archive.get(key) or b"")
            except Rejected as error:
                raise Rejected(error.reason, f"{key}: {error.detail}") from None

    def entries(self, wanted: Wanted, table: Iterable[Line] = ()) -> list[Line]:
        """Return what is wanted, once each, oldest recorded first; lines of the table complete what is missing."""
        if wanted.cluster is None:
            raise Rejected("nothing_asked", "an archive is read by cluster")
        found = {line.hash: line for line in table}
        for line in self.lines(self.objects(wanted.cluster, wanted)):
            if line.hash not in found and wanted.covers(asdict(line)):
                place = f"{line.recorded_at}#{line.node or ''}#{line.epoch:04d}#{line.sequence:012d}"
                found[line.hash] = Line(line.body, line.hash, place)
        return sorted(found.values(), key=_recorded)

    def clusters(self) -> list[str]:
        """List the clusters that the archive has lines of."""
        keys = self.archive.list(layout.LINES)
        return sorted({key.split("cluster=", 1)[1].split("/", 1)[0] for key in keys if "cluster=" in key})


def _recorded(line: Line) -> tuple[str, str, int, int]:
    metadata = line.event["metadata"]
    return metadata["recorded_at"], metadata["node"] or "", metadata["epoch"], metadata["sequence"]
