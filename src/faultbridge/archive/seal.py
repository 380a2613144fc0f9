"""Seal: a day of a cluster is complete in the archive, proven by reading it back; only then may the table forget it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.archive.manifests import Manifest, Part, Stretch
from faultbridge.archive.retention import Expire, sealed_up_to
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.entries import Stream
from faultbridge.domain.nodes import Head
from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict, Misconfigured, Rejected
from faultbridge.ledger.append import Stack
from faultbridge.ledger.chain import Break, Walk
from faultbridge.ledger.streams import entries_after, partition, streams_of
from faultbridge.ports import Clock, Table
from faultbridge.ports.objects import Archive, Vault
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.wire.archive_lines import ArchiveLine, line_of

Places = dict[tuple[str, int, int], str]
LINES_AN_OBJECT = 20_000


@dataclass(slots=True)
class Sealed:
    """What became of one day: how many entries it has, how many the archive lacked, streams that were left open."""

    day: str
    entries: int = 0
    completed: int = 0
    breaks: list[Break] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Gathered:
    """The entries of the streams up to the end of a day."""

    lines: list[ArchiveLine]
    stretches: list[Stretch]
    breaks: list[Break]


@dataclass(frozen=True, slots=True)
class Seal:
    """Seals days; `keep` is how long a sealed entry stays in the table, None for ever."""

    table: Table
    archive: Archive
    vault: Vault
    clock: Clock
    stack: Stack
    keep: timedelta | None

    def __call__(self, config: ClusterConfig, day: str) -> Sealed:
        """Seal everything that was recorded up to the end of a day; done twice it is done once.

        A stream whose chain is broken stays as it is from the break on: what cannot be proven is not forgotten.
        """
        sealed = Sealed(day)
        key = layout.manifest_key(config.cluster, day)
        kept = self.archive.get(key)
        manifest = self._begin(key, config, sealed) if kept is None else self._finish(key, kept)
        sealed.entries = manifest.entries
        Expire(self.table, self.clock, self.keep)(manifest)
        return sealed

    def _begin(self, key: str, config: ClusterConfig, sealed: Sealed) -> Manifest:
        """Seal a day without a manifest; of two rounds at once, the one that locks first says what the day holds."""
        manifest = self._write(config, sealed)
        self._prove(key, manifest)
        first = self._lock(key, manifest)
        if first != manifest:
            self._prove(key, first)
        self.archive.put(key, first.render())
        return first

    def _finish(self, key: str, kept: bytes) -> Manifest:
        """Go on with a day that has its manifest, as long as it is the one that was locked."""
        manifest = Manifest.read(kept)
        self._prove(key, manifest)
        if self._lock(key, manifest) != manifest:
            locked = layout.sealed_key(key)
            raise Misconfigured(f"{key} is not what was sealed first ({locked}); nothing is forgotten")
        return manifest

    def _write(self, config: ClusterConfig, sealed: Sealed) -> Manifest:
        gathered = self._gather(config, sealed.day)
        parts, known = self._parts(config.cluster, gathered.lines)
        missing = [line for line in gathered.lines if known.get((line.stream, *line.place)) != line.hash]
        parts += self._complete(missing)
        sealed.completed, sealed.breaks = len(missing), gathered.breaks
        return Manifest(
            stack=self.stack.name,
            stack_id=self.stack.id,
            cluster=config.cluster,
            day=sealed.day,
            sealed_at=to_text(self.clock.now()),
            entries=len(gathered.lines),
            parts=tuple(sorted(parts, key=lambda part: part.key)),
            stretches=tuple(gathered.stretches),
            after=self._before(config.cluster, sealed.day),
        )

    def _gather(self, config: ClusterConfig, day: str) -> _Gathered:
        gathered = _Gathered([], [], [])
        end = to_text(datetime.fromisoformat(f"{day}T00:00:00+00:00") + timedelta(days=1))
        for stream in streams_of(self.table, self.stack, config):
            start = sealed_up_to(self.table, partition(stream))
            walk = Walk(stream, start)
            for line in self._sealable(stream, start, end):
                breaks = walk.take(
                    {"epoch": line.epoch, "sequence": line.sequence, "body": line.body, "hash": line.hash}
                )
                if breaks:
                    gathered.breaks.extend(breaks)
                    break
                gathered.lines.append(line)
                _lengthen(gathered.stretches, line)
        return gathered

    def _sealable(self, stream: Stream, start: Head | None, end: str) -> Iterator[ArchiveLine]:
        for item in entries_after(self.table, stream, start):
            # What still waits for the bus may not be forgotten; it is sealed with the next day.
            if str(item["recorded_at"]) >= end or "gsi4pk" in item:
                return
            yield line_of(item)

    def _parts(self, cluster: str, lines: list[ArchiveLine]) -> tuple[list[Part], Places]:
        parts: list[Part] = []
        known: Places = {}
        for day in sorted({line.day for line in lines}):
            for key in self.archive.list(layout.day_prefix(cluster, day)):
                part, held = self._held(key)
                if held is not None:
                    parts.append(part)
                    known |= held
        return parts, known

    def _held(self, key: str) -> tuple[Part, Places | None]:
        body = self.archive.get(key) or b""
        try:
            held = {(line.stream, *line.place): line.hash for line in layout.unpack(body)}
        except Rejected:
            return Part(key, layout.digest(body), 0), None
        return Part(key, layout.digest(body), len(held)), held

    def _complete(self, missing: list[ArchiveLine]) -> list[Part]:
        """Put what the archive lost there from the table."""
        parts: list[Part] = []
        by_day: dict[tuple[str, str], list[ArchiveLine]] = {}
        for line in missing:
            by_day.setdefault((line.cluster, line.day), []).append(line)
        for (cluster, day), lines in by_day.items():
            for at in range(0, len(lines), LINES_AN_OBJECT):
                chunk = lines[at : at + LINES_AN_OBJECT]
                body = layout.pack(chunk)
                key = layout.object_key(cluster, day, body, "completed")
                self.archive.put(key, body)
                parts.append(Part(key, layout.digest(body), len(chunk)))
        return parts

    def _before(self, cluster: str, day: str) -> str | None:
        days = [key[-len("YYYY-MM-DD.json") : -len(".json")] for key in self.archive.list(_manifests_of(cluster))]
        return max((one for one in days if one < day), default=None)

    def _prove(self, key: str, manifest: Manifest) -> None:
        """Read back every object that a manifest names; Misconfigured when the archive holds something else."""
        held: Places = {}
        for part in manifest.parts:
            body = self.archive.get(part.key)
            if body is None or layout.digest(body) != part.sha256:
                raise Misconfigured(f"{part.key} is not what the manifest {key} says; nothing of that day is forgotten")
            held |= {(line.stream, *line.place): line.hash for line in layout.unpack(body)}
        for one in manifest.stretches:
            if not _covers(held, one):
                raise Misconfigured(f"the objects of {key} lack entries of {one.stream}; nothing is forgotten")

    def _lock(self, key: str, manifest: Manifest) -> Manifest:
        """Lock a proven manifest; what was locked first stands and is returned."""
        locked = layout.sealed_key(key)
        try:
            self.vault.put(locked, manifest.render())
        except Conflict:
            return Manifest.read(self.vault.get(locked) or b"")
        return manifest


def _manifests_of(cluster: str) -> str:
    return f"{layout.MANIFESTS}cluster={cluster}/"


def _lengthen(stretches: list[Stretch], line: ArchiveLine) -> None:
    first = line.sequence
    if stretches and (stretches[-1].stream, stretches[-1].epoch) == (line.stream, line.epoch):
        first = stretches.pop().first
    stretches.append(Stretch(line.stream, line.node, line.epoch, first, line.sequence, line.hash))


def _covers(held: Mapping[tuple[str, int, int], str], one: Stretch) -> bool:
    places = ((one.stream, one.epoch, sequence) for sequence in range(one.first, one.last + 1))
    return all(place in held for place in places) and held[one.stream, one.epoch, one.last] == one.hash
