"""Seal: completes a day of a cluster in the archive and reads it back, before its entries may expire."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct, field, to_builtins

from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.entries import Stream
from faultbridge.model.errors import Conflict, FaultbridgeError, Misconfigured, Rejected, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Head, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.model.storage.wire.archive_lines import ArchiveLine, line_of
from faultbridge.model.storage.writes import Absent, AnyOf, Below, Present, Put, Update
from faultbridge.model.times import to_milliseconds, to_text
from faultbridge.model.values import replace
from faultbridge.record.append import Stack
from faultbridge.record.archive.anchor import Anchor, RecordAnchor
from faultbridge.record.cluster_stream import entries_after, partition, streams_of
from faultbridge.record.hash_chain import Break, ChainScan, StreamSeal, archive_form, place_text, read_seal, seal_item
from faultbridge.record.ports.objects import Archive, Vault
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all


class SealedObject(Struct, frozen=True):
    """One archive object in a manifest, with its number of lines and its hash at the time of the seal."""

    key: str
    sha256: str
    lines: int


class SealedRange(Struct, frozen=True):
    """Consecutive entries of one stream and epoch, with the hash of the last one."""

    stream: str
    node: str | None
    epoch: int
    first: int
    last: int
    hash: str


class Manifest(Struct, frozen=True):
    """The manifest of a sealed day of one cluster; `after` is the latest earlier day with a manifest."""

    stack: str
    stack_id: str
    cluster: str
    day: str
    sealed_at: str
    entries: int
    objects: tuple[SealedObject, ...]
    ranges: tuple[SealedRange, ...]
    after: str | None = None

    def render(self) -> bytes:
        """Return the manifest as canonical JSON, so that equal manifests give equal bytes."""
        return canonical_json({"version": 1, **to_builtins(self)}).encode()

    @classmethod
    def read(cls, body: bytes) -> Manifest:
        """Parse a manifest. Raises `Rejected` (`bad_object`) if `body` is not a manifest."""
        try:
            return msgspec.json.decode(body, type=cls)
        except ValueError:
            raise Rejected("bad_object", "the object is not a manifest; restore its previous version") from None


def sealed_ends(manifests: Iterable[Manifest]) -> dict[str, tuple[int, int]]:
    """Return the epoch and sequence number of the last sealed entry of each stream, by stream name."""
    ends: dict[str, tuple[int, int]] = {}
    for manifest in manifests:
        for one in manifest.ranges:
            ends[one.stream] = max(ends.get(one.stream, (0, 0)), (one.epoch, one.last))
    return ends


def sealed_head(table: Table, partition: str) -> Head | None:
    """Return the last sealed entry of a stream; None if no entry of the stream is sealed."""
    head = read_seal(table.get(keys.stream_anchor(partition))).head
    return head if head.sequence else None


def expire_entries(table: Table, clock: Clock, keep: timedelta | None, manifest: Manifest) -> int:
    """Let a manifest's entries expire `keep` (None: never) from now; returns their number, without stored ranges."""
    count = 0
    for sealed in manifest.ranges:
        pk, end = _partition(manifest.cluster, sealed.node), (sealed.epoch, sealed.last)
        seal = read_seal(table.get(keys.stream_anchor(pk)))
        if seal.position >= end:
            continue
        if keep is not None:
            # Before the first expiry time, so that `verify` never finds one that the seal does not allow.
            seal = replace(seal, expires_to=end)
            moved = _store_seal(table, clock, sealed, seal, manifest)
            count += _set_expiry(table, pk, sealed, clock.now() + keep)
            if not moved:
                continue
        head = Head(epoch=sealed.epoch, sequence=sealed.last, hash=sealed.hash)
        _store_seal(table, clock, sealed, replace(seal, head=head), manifest)
    return count


def _set_expiry(table: Table, pk: str, sealed: SealedRange, at: datetime) -> int:
    expires_at, missing = to_milliseconds(at) // 1000, 0
    for sequence in range(sealed.first, sealed.last + 1):
        key = keys.entry(pk, sealed.epoch, sequence)
        try:
            table.write(Update(key, set={("expires_at",): expires_at}, when=Present()))
        except Conflict:
            missing += 1
    if missing:
        reason = f"{missing} sealed entries have left the table already"
        log_cause("expiry_skipped", reason=reason, stream=sealed.stream, epoch=sealed.epoch)
    return sealed.last - sealed.first + 1


def _store_seal(table: Table, clock: Clock, sealed: SealedRange, seal: StreamSeal, manifest: Manifest) -> bool:
    """Store the seal of a stream; returns False if the stored seal already covers the range."""
    item = seal_item(_partition(manifest.cluster, sealed.node), seal, manifest.day, clock.now())
    end = place_text((sealed.epoch, sealed.last))
    try:
        table.write(Put(item, when=AnyOf((Absent(), Below("place", end)))))
    except Conflict:
        log_cause("seal_not_moved", reason="a later seal is stored", stream=sealed.stream, day=manifest.day)
        return False
    return True


def _partition(cluster: str, node: str | None) -> str:
    return keys.cluster_partition(cluster) if node is None else keys.node_partition(NodeKey(cluster, node))


ArchivedHashes = dict[tuple[str, int, int], str]
"""The hashes of archived entries, by stream, epoch and sequence number."""

LINES_PER_OBJECT = 20_000


class SealResult(Struct):
    """The result of sealing a day; `completed` entries were added to the archive by this seal."""

    day: str
    entries: int = 0
    completed: int = 0
    breaks: list[Break] = field(default_factory=list)


class _DayEntries(Struct, frozen=True):
    lines: list[ArchiveLine]
    ranges: list[SealedRange]
    breaks: list[Break]


class Seal(Struct, frozen=True):
    """Seals the days of a cluster, so that the entries of a sealed day may expire from the table.

    It adds the entries that the archive lacks, reads back every object in the manifest, and locks the manifest in the
    vault.
    """

    table: Table
    archive: Archive
    vault: Vault
    clock: Clock
    stack: Stack
    keep: timedelta | None

    def __call__(self, config: ClusterConfig, day: str) -> SealResult:
        """Seal the entries of a cluster that were recorded until the end of a day and are not sealed yet.

        Each stream is sealed up to, but not including, its first entry that is not published or that breaks the hash
        chain. If the day already has a manifest, no entry is added: the manifest is checked and locked again, and
        missing expiry times are set. Raises `Misconfigured` if a check fails, and `Rejected` if the stored manifest is
        damaged.
        """
        result = SealResult(day)
        key = layout.manifest_key(config.cluster, day)
        stored = self.archive.get(key)
        manifest = self._seal(key, config, result) if stored is None else self._finish(key, stored)
        result.entries = manifest.entries
        expire_entries(self.table, self.clock, self.keep, manifest)
        return result

    def _seal(self, key: str, config: ClusterConfig, result: SealResult) -> Manifest:
        """Seal a day without a manifest; of two runs at the same time, both use the manifest locked first."""
        manifest = self._write(config, result)
        self._prove(key, manifest)
        locked = self._lock(key, manifest)
        if locked != manifest:
            self._prove(key, locked)
        self.archive.put(key, locked.render())
        return locked

    def _finish(self, key: str, stored: bytes) -> Manifest:
        """Check the stored manifest of a day again, lock it if a run was interrupted before, and return it."""
        manifest = Manifest.read(stored)
        self._prove(key, manifest)
        if self._lock(key, manifest) != manifest:
            locked = layout.sealed_key(key)
            raise Misconfigured(f"{key} differs from the locked manifest {locked}; no entry expires until it matches")
        return manifest

    def _write(self, config: ClusterConfig, result: SealResult) -> Manifest:
        found = self._day_entries(config, result.day)
        objects, archived = self._archived(config.cluster, found.lines)
        missing = [line for line in found.lines if archived.get((line.stream, *line.place)) != line.hash]
        objects += self._complete(missing)
        result.completed, result.breaks = len(missing), found.breaks
        return Manifest(
            stack=self.stack.name,
            stack_id=self.stack.id,
            cluster=config.cluster,
            day=result.day,
            sealed_at=to_text(self.clock.now()),
            entries=len(found.lines),
            objects=tuple(sorted(objects, key=lambda one: one.key)),
            ranges=tuple(found.ranges),
            after=self._previous_day(config.cluster, result.day),
        )

    def _day_entries(self, config: ClusterConfig, day: str) -> _DayEntries:
        found = _DayEntries([], [], [])
        end = to_text(datetime.fromisoformat(f"{day}T00:00:00+00:00") + timedelta(days=1))
        for stream in streams_of(self.table, self.stack, config):
            start = sealed_head(self.table, partition(stream))
            scan = ChainScan(stream, archive_form, start=start)
            for line in self._sealable(stream, start, end):
                if breaks := scan.check(to_builtins(line)):
                    found.breaks.extend(breaks)
                    _log_break(breaks[0])
                    break
                found.lines.append(line)
                _extend(found.ranges, line)
        return found

    def _sealable(self, stream: Stream, start: Head | None, end: str) -> Iterator[ArchiveLine]:
        for item in entries_after(self.table, stream, start):
            # An entry that is not published yet (gsi4pk) must not expire; it is sealed with a later day.
            if str(item["recorded_at"]) >= end or "gsi4pk" in item:
                return
            yield line_of(item)

    def _archived(self, cluster: str, lines: list[ArchiveLine]) -> tuple[list[SealedObject], ArchivedHashes]:
        """Read the archive objects of the days of `lines`; an unreadable object's entries are archived again."""
        objects: list[SealedObject] = []
        archived: ArchivedHashes = {}
        for day in sorted({line.day for line in lines}):
            for key in self.archive.list(layout.day_prefix(cluster, day)):
                body = self.archive.get(key) or b""
                try:
                    hashes = _hashes(body)
                except Rejected as unreadable:
                    reason = f"{unreadable}; its entries are archived again from the table"
                    log_cause("archive_object_skipped", reason=reason, level=logging.WARNING, object=key)
                    continue
                objects.append(SealedObject(key, layout.digest(body), len(hashes)))
                archived |= hashes
        return objects, archived

    def _complete(self, missing: list[ArchiveLine]) -> list[SealedObject]:
        objects: list[SealedObject] = []
        by_day: dict[tuple[str, str], list[ArchiveLine]] = {}
        for line in missing:
            by_day.setdefault((line.cluster, line.day), []).append(line)
        for (cluster, day), lines in by_day.items():
            for first in range(0, len(lines), LINES_PER_OBJECT):
                batch = lines[first : first + LINES_PER_OBJECT]
                body = layout.pack(batch)
                key = layout.object_key(cluster, day, body, "completed")
                self.archive.put(key, body)
                objects.append(SealedObject(key, layout.digest(body), len(batch)))
        return objects

    def _previous_day(self, cluster: str, day: str) -> str | None:
        listed = self.archive.list(f"{layout.MANIFESTS}cluster={cluster}/")
        days = [key[-len("YYYY-MM-DD.json") : -len(".json")] for key in listed]
        return max((earlier for earlier in days if earlier < day), default=None)

    def _prove(self, key: str, manifest: Manifest) -> None:
        archived: ArchivedHashes = {}
        for one in manifest.objects:
            body = self.archive.get(one.key)
            if body is None or layout.digest(body) != one.sha256:
                raise Misconfigured(f"{one.key} differs from the manifest {key}; no entry of that day expires")
            archived |= _hashes(body)
        for sealed in manifest.ranges:
            if not _covers(archived, sealed):
                raise Misconfigured(f"the objects of {key} lack entries of {sealed.stream}; no entry expires")

    def _lock(self, key: str, manifest: Manifest) -> Manifest:
        """Store a proven manifest in the vault, and return the manifest of the day that is stored there."""
        locked = layout.sealed_key(key)
        try:
            self.vault.put(locked, manifest.render())
        except Conflict as conflict:
            log_cause("manifest_already_locked", reason=str(conflict), cluster=manifest.cluster, day=manifest.day)
            return Manifest.read(self.vault.get(locked) or b"")
        return manifest


def _hashes(body: bytes) -> ArchivedHashes:
    return {(line.stream, *line.place): line.hash for line in layout.unpack(body)}


def _extend(ranges: list[SealedRange], line: ArchiveLine) -> None:
    first = line.sequence
    if ranges and (ranges[-1].stream, ranges[-1].epoch) == (line.stream, line.epoch):
        first = ranges.pop().first
    ranges.append(SealedRange(line.stream, line.node, line.epoch, first, line.sequence, line.hash))


def _covers(archived: Mapping[tuple[str, int, int], str], one: SealedRange) -> bool:
    positions = ((one.stream, one.epoch, sequence) for sequence in range(one.first, one.last + 1))
    return all(position in archived for position in positions) and archived[one.stream, one.epoch, one.last] == one.hash


def _log_break(found: Break) -> None:
    ids = {"stream": found.stream, "epoch": found.epoch, "sequence": found.sequence}
    log_cause("stream_not_sealed", reason=f"{found.kind.value}: {found.detail}", level=logging.WARNING, **ids)


SEAL_DELAY = timedelta(hours=2)
"""Time between the end of a day and its seal. It lets the delivery to the archive finish."""


class RunResult(Struct):
    """The result of one run for all clusters; `late` ones failed temporarily, `failures` in another way."""

    roots: dict[str, str] = field(default_factory=dict)
    sealed: int = 0
    completed: int = 0
    breaks: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)


class ArchiveSchedule(Struct, frozen=True):
    """Anchors every cluster once an hour, and seals the last day that ended at least two hours ago."""

    table: Table
    clock: Clock
    anchor: Anchor
    record_anchor: RecordAnchor
    seal: Seal

    def run(self) -> RunResult:
        """Anchor every registered cluster and seal its last day; one cluster's error does not stop the others."""
        result = RunResult()
        for row in query_all(self.table, keys.CLUSTERS):
            cluster = str(row["sk"])
            try:
                self._run(cluster, result)
            except Transient as error:
                log_cause("archive_run_postponed", reason=str(error), level=logging.WARNING, cluster=cluster)
                result.late.append(f"{cluster}: {error}")
            except FaultbridgeError as error:
                log_cause("archive_run_failed", reason=str(error), level=logging.ERROR, cluster=cluster)
                result.failures.append(f"{cluster}: {error}")
        return result

    def _run(self, cluster: str, result: RunResult) -> None:
        found = self.table.get(keys.cluster_config(cluster))
        if found is None:
            log_cause("cluster_not_archived", reason="the cluster is listed but not registered", cluster=cluster)
            return
        config = items.read_config(found)
        anchor = self.anchor(config)
        if self.record_anchor(anchor):
            result.roots[cluster] = anchor.root
        day = (self.clock.now() - SEAL_DELAY - timedelta(days=1)).date().isoformat()
        if self._last_sealed_day(cluster) >= day:
            return
        sealed = self.seal(config, day)
        self.table.write(Put(items.item(keys.cluster_sealed(cluster), self.clock.now(), {"day": day})))
        result.sealed += sealed.entries
        result.completed += sealed.completed
        result.breaks += [f"{one.stream} {one.epoch}/{one.sequence}: {one.detail}" for one in sealed.breaks]

    def _last_sealed_day(self, cluster: str) -> str:
        found = self.table.get(keys.cluster_sealed(cluster))
        return "" if found is None else str(found["day"])
