"""Read: returns the entries of a cluster from an archive, without a deployed stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from faultbridge.domain.times import to_text
from faultbridge.errors import Rejected
from faultbridge.ledger.timeline import Line, TimelineQuery
from faultbridge.ports.objects import Archive
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.wire.archive_lines import ArchiveLine


@dataclass(frozen=True, slots=True)
class ReadArchive:
    """Reads archived entries (lines) from S3, or from a folder with a copy of the bucket."""

    archive: Archive

    def objects(self, cluster: str, query: TimelineQuery | None = None) -> Iterator[str]:
        """List the keys of the archive objects with entries of a cluster.

        With `query`, only the objects of the days in the period of the query are listed.
        """
        first = to_text(query.since)[:10] if query and query.since else ""
        last = to_text(query.until)[:10] if query and query.until else "~"
        for key in self.archive.list(layout.cluster_prefix(cluster)):
            if first <= layout.day_of(key) <= last:
                yield key

    def lines(self, keys: Iterable[str]) -> Iterator[ArchiveLine]:
        """Yield every line (archived entry) of the given objects; repeated lines are included.

        Raises `Rejected` (`bad_object`) with the key of an object whose content is invalid. A missing object has no
        lines.
        """
        for key in keys:
            try:
                yield from layout.unpack(self.archive.get(key) or b"")
            except Rejected as error:
                raise Rejected(error.reason, f"{key}: {error.detail}") from None

    def entries(self, query: TimelineQuery, table: Iterable[Line] = ()) -> list[Line]:
        """Return the archived entries that match a query, together with `table`, in order of recording.

        `table` contains the result of the same query to the DynamoDB table, because the archive may still lack recent
        entries. An entry that is in both is returned once. Raises `Rejected` if the query names no cluster
        (`nothing_asked`), or if an archive object cannot be read (`bad_object`).
        """
        if query.cluster is None:
            raise Rejected("nothing_asked", "the query names no cluster; an archive is read by cluster")
        found = {line.hash: line for line in table}
        for line in self.lines(self.objects(query.cluster, query)):
            if line.hash not in found and query.covers(asdict(line)):
                position = f"{line.recorded_at}#{line.node or ''}#{line.epoch:04d}#{line.sequence:012d}"
                found[line.hash] = Line(line.body, line.hash, position)
        return sorted(found.values(), key=_recording_order)

    def clusters(self) -> list[str]:
        """Return the names of the clusters that have objects in the archive, in alphabetical order."""
        keys = self.archive.list(layout.LINES)
        return sorted({key.split("cluster=", 1)[1].split("/", 1)[0] for key in keys if "cluster=" in key})


def _recording_order(line: Line) -> tuple[str, str, int, int]:
    metadata = line.event["metadata"]
    return metadata["recorded_at"], metadata["node"] or "", metadata["epoch"], metadata["sequence"]
