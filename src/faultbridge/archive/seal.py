"""Seal: completes and checks a day of a cluster in the archive, before its entries may expire.

The check reads back every object that the manifest of the day names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import asdict, field
from datetime import datetime, timedelta

from faultbridge.archive.manifests import Manifest, SealedObject, SealedRange
from faultbridge.archive.retention import ExpireEntries, sealed_head
from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.entries import Stream
from faultbridge.domain.nodes import Head
from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict, Misconfigured, Rejected
from faultbridge.ledger.append import Stack
from faultbridge.ledger.entry_attributes import archive_form
from faultbridge.ledger.hash_chain import Break, ChainScan
from faultbridge.ledger.streams import entries_after, partition, streams_of
from faultbridge.log import log_cause
from faultbridge.ports import Clock, Table
from faultbridge.ports.objects import Archive, Vault
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.wire.archive_lines import ArchiveLine, line_of

ArchivedHashes = dict[tuple[str, int, int], str]
"""The hashes of archived entries, by stream, epoch and sequence number."""

LINES_PER_OBJECT = 20_000


@dataclass(slots=True)
class SealResult:
    """The result of sealing a day.

    `entries` is the number of entries in the manifest of the day, `completed` the number of entries that this seal
    added to the archive.
    """

    day: str
    entries: int = 0
    completed: int = 0
    breaks: list[Break] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _DayEntries:
    lines: list[ArchiveLine]
    ranges: list[SealedRange]
    breaks: list[Break]


@dataclass(frozen=True, slots=True)
class Seal:
    """Seals the days of a cluster, so that the entries of a sealed day may expire from the table.

    To seal a day, it adds the entries that the archive lacks, reads back every object in the manifest of the day to
    check that no entry is missing or changed, and locks the manifest in the vault. `keep` is the time from the seal to
    the expiry of an entry. None means that entries never expire.
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
        ExpireEntries(self.table, self.clock, self.keep)(manifest)
        return result

    def _seal(self, key: str, config: ClusterConfig, result: SealResult) -> Manifest:
        """Seal a day that has no manifest, and return its locked manifest.

        If two runs seal the day at the same time, both use the manifest that was locked first.
        """
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
                if breaks := scan.check(asdict(line)):
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
        """Read the archive objects of all days on which the entries in `lines` were recorded.

        Returns the objects, and the hashes of all entries in them. An object that cannot be read is skipped, so that
        its entries are archived again.
        """
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
