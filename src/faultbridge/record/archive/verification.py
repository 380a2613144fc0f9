"""Archive verification: checks an archive against its manifests, chains and vault, without a stack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from msgspec import to_builtins

from faultbridge.model.entries import Stream
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import Head
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.model.storage.wire.archive_lines import ArchiveLine
from faultbridge.model.times import to_text
from faultbridge.record.archive.anchor import AnchorDocument, read_anchor
from faultbridge.record.archive.seal import Manifest, sealed_ends
from faultbridge.record.hash_chain import Break, BreakKind, ChainScan, KnownHash, Position, archive_form
from faultbridge.record.ports.objects import Archive, Vault
from faultbridge.record.timeline import Line, TimelineQuery
from faultbridge.record.verify import AnchoredHashes, Verified

# A verification compares the entries with hashes in anchors and sealed manifests of the vault, which cannot be changed.

Document = TypeVar("Document")


@dataclass(slots=True)
class _Collected:
    """The hashes of entries in the vault by stream and position; of two different hashes the first counts."""

    known: dict[str, dict[Position, KnownHash]] = field(default_factory=dict)
    sealed: dict[str, dict[Position, KnownHash]] = field(default_factory=dict)
    breaks: list[Break] = field(default_factory=list)
    anchors: int = 0

    def add(self, stream: str, epoch: int, sequence: int, known: KnownHash) -> None:
        """Add the hash of an entry. A different hash of the same entry adds a break instead."""
        first = self.known.setdefault(stream, {}).setdefault((epoch, sequence), known)
        if first.hash != known.hash:
            detail = f"{first.anchor} and {known.anchor} recorded different hashes: the entry was rewritten in between"
            self.breaks.append(Break(stream, epoch, sequence, BreakKind.ANCHOR, detail))


def anchored_hashes(vault: Vault, cluster: str) -> AnchoredHashes:
    """Return the hashes of a cluster's entries, with a break for each unreadable or contradicting object."""
    collected = _Collected()
    for anchor in _anchors(vault, cluster, collected.breaks):
        collected.anchors += 1
        for stream, (epoch, sequence, hashed) in anchor.heads.items():
            collected.add(stream, epoch, sequence, KnownHash(hashed, f"anchor {anchor.at}"))
    for manifest in _manifests(vault, cluster, collected.breaks):
        collected.anchors += 1
        for one in manifest.ranges:
            known = KnownHash(one.hash, f"seal {manifest.day}")
            collected.add(one.stream, one.epoch, one.last, known)
            collected.sealed.setdefault(one.stream, {})[one.epoch, one.last] = known
    # `faultbridge recover` has claimed each of these epochs by an object.
    recovered = frozenset(int(key.removeprefix(layout.EPOCHS)[:4]) for key in vault.list(layout.EPOCHS))
    breaks = tuple(collected.breaks)
    return AnchoredHashes(collected.known, collected.sealed, recovered, breaks, collected.anchors)


def _stack_id(vault: Vault, cluster: str) -> str | None:
    anchor = next(_anchors(vault, cluster, []), None) or next(_manifests(vault, cluster, []), None)
    return anchor.stack_id if anchor else None


def _anchors(vault: Vault, cluster: str, breaks: list[Break]) -> Iterator[AnchorDocument]:
    return _read(vault, layout.ANCHORS, cluster, read_anchor, breaks)


def _manifests(vault: Vault, cluster: str, breaks: list[Break]) -> Iterator[Manifest]:
    return _read(vault, layout.SEALED, cluster, lambda _, body: Manifest.read(body), breaks)


def _read(
    vault: Vault, folder: str, cluster: str, parse: Callable[[str, bytes], Document], breaks: list[Break]
) -> Iterator[Document]:
    for key in vault.list(f"{folder}cluster={cluster}/"):
        try:
            yield parse(key, vault.get(key) or b"")
        except Rejected as error:
            breaks.append(Break(cluster, 0, 0, BreakKind.OBJECT, f"{key}: {error.detail}", key))


@dataclass(frozen=True, slots=True)
class ReadArchive:
    """Reads archived entries (lines) from S3, or from a folder with a copy of the bucket."""

    archive: Archive

    def objects(self, cluster: str, query: TimelineQuery | None = None) -> Iterator[str]:
        """List the keys of a cluster's archive objects, with `query` only those of its days."""
        first = to_text(query.since)[:10] if query and query.since else ""
        last = to_text(query.until)[:10] if query and query.until else "~"
        for key in self.archive.list(layout.cluster_prefix(cluster)):
            if first <= layout.day_of(key) <= last:
                yield key

    def lines(self, keys: Iterable[str]) -> Iterator[ArchiveLine]:
        """Yield every line of the given objects, repeated ones too; raises `Rejected` for an invalid object."""
        for key in keys:
            try:
                yield from layout.unpack(self.archive.get(key) or b"")
            except Rejected as error:
                raise Rejected(error.reason, f"{key}: {error.detail}") from None

    def entries(self, query: TimelineQuery, table: Iterable[Line] = ()) -> list[Line]:
        """Return the matching entries of the archive and of `table`, which may have later ones, once each."""
        if query.cluster is None:
            raise Rejected("nothing_asked", "the query names no cluster; an archive is read by cluster")
        found = {line.hash: line for line in table}
        for line in self.lines(self.objects(query.cluster, query)):
            if line.hash not in found and query.covers(to_builtins(line)):
                position = f"{line.recorded_at}#{line.node or ''}#{line.epoch:04d}#{line.sequence:012d}"
                found[line.hash] = Line(line.body, line.hash, position)
        return sorted(found.values(), key=_recording_order)

    def clusters(self) -> list[str]:
        """Return the names of the clusters that have objects in the archive, in alphabetical order."""
        keys = self.archive.list(layout.LINES)
        return sorted({key.split("cluster=", 1)[1].split("/", 1)[0] for key in keys if "cluster=" in key})


def _recording_order(line: Line) -> tuple[datetime, str, int, int]:
    metadata = line.event.metadata
    return metadata.recorded_at, metadata.node or "", metadata.epoch, metadata.sequence


Lines = dict[str, dict[Position, ArchiveLine]]


@dataclass(slots=True)
class _ArchiveContent:
    manifests: list[Manifest] = field(default_factory=list)
    lines: Lines = field(default_factory=dict)
    breaks: list[Break] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class VerifyArchive:
    """Verifies the archive of a cluster against its manifests and chains and, if given, the vault."""

    archive: Archive
    vault: Vault | None = None
    stack_id: str | None = None

    def __call__(self, cluster: str, node: str | None = None) -> Verified:
        """Verify one stream, or all of a cluster; defects of objects are always those of the cluster."""
        content = _ArchiveContent()
        self._read_manifests(cluster, content)
        self._read_lines(cluster, content)
        anchored = anchored_hashes(self.vault, cluster) if self.vault else AnchoredHashes()
        verified = Verified(breaks=[*content.breaks, *anchored.breaks])
        stack_id = self._stack_id(cluster, content)
        only = None if node is None else f"{cluster}/{node}"
        for name in sorted({*content.lines, *sealed_ends(content.manifests), *anchored.known}):
            if only in {None, name}:
                stream = Stream(stack_id, "", cluster, name.partition("/")[2] or None)
                _verify_stream(stream, content, anchored, verified)
        return verified

    def _stack_id(self, cluster: str, content: _ArchiveContent) -> str:
        stack_id = self.stack_id or next((manifest.stack_id for manifest in content.manifests), None)
        stack_id = stack_id or (_stack_id(self.vault, cluster) if self.vault else None)
        if stack_id is None:
            raise Rejected("no_stack_id", f"no manifest or anchor of {cluster} names its stack; give --stack-id")
        return stack_id

    def _read_manifests(self, cluster: str, content: _ArchiveContent) -> None:
        listed = list(self.archive.list(f"{layout.MANIFESTS}cluster={cluster}/"))
        for key in listed:
            body = self.archive.get(key) or b""
            if self.vault is not None and self.vault.get(layout.sealed_key(key)) != body:
                content.breaks.append(_object(cluster, key, "it differs from the locked manifest"))
            try:
                manifest = Manifest.read(body)
            except Rejected as error:
                content.breaks.append(_object(cluster, key, error.detail))
                continue
            content.manifests.append(manifest)
            content.breaks += self._check_objects(manifest)
        for locked in self.vault.list(f"{layout.SEALED}cluster={cluster}/") if self.vault is not None else ():
            key = layout.MANIFESTS + locked.removeprefix(layout.SEALED)
            if key not in listed:
                content.breaks.append(_object(cluster, key, "its manifest is locked in the vault, but it is missing"))

    def _check_objects(self, manifest: Manifest) -> Iterator[Break]:
        for one in manifest.objects:
            body = self.archive.get(one.key)
            if body is None:
                yield _object(manifest.cluster, one.key, f"it was sealed with {manifest.day} and is missing")
            elif layout.digest(body) != one.sha256:
                yield _object(manifest.cluster, one.key, f"it differs from what was sealed with {manifest.day}")

    def _read_lines(self, cluster: str, content: _ArchiveContent) -> None:
        reader = ReadArchive(self.archive)
        for key in reader.objects(cluster):
            try:
                for line in reader.lines([key]):
                    content.breaks += _add(content.lines, line, key)
            except Rejected as error:
                content.breaks.append(_object(cluster, key, error.detail))


def _verify_stream(stream: Stream, content: _ArchiveContent, anchored: AnchoredHashes, verified: Verified) -> None:
    verified.streams += 1
    lines = content.lines.get(stream.name, {})
    start = _start(stream, lines, content.manifests)
    scan = ChainScan(stream, archive_form, start=start, known=anchored.of(stream.name), recovered=anchored.recovered)
    for position in sorted(lines):
        verified.entries += 1
        if position == scan.position:
            continue  # the entries before it were deleted on purpose, so this one is trusted
        verified.breaks += scan.check(to_builtins(lines[position]))
    end = sealed_ends(content.manifests).get(stream.name)
    missing_end = [] if end is None or end <= scan.position else [_missing_end(stream, scan, end)]
    verified.breaks += missing_end or scan.check_known()


def _start(stream: Stream, lines: dict[Position, ArchiveLine], manifests: Iterable[Manifest]) -> Head | None:
    """Return the entry after which to verify a stream, or None to verify the stream from its start.

    A customer may delete whole sealed days. The first entries of the stream are then missing on purpose, and the first
    archived entry is trusted and returned. It is returned if all of these are true:

    - The oldest remaining manifest names an earlier sealed day (`after`).
    - The range of the stream in this manifest starts with the first archived entry.
    - The sequence number of that entry is not 1.
    """
    first = min(manifests, key=lambda manifest: manifest.day, default=None)
    if first is None or first.after is None or not lines:
        return None
    epoch, sequence = min(lines)
    sealed = next((one for one in first.ranges if one.stream == stream.name and one.epoch == epoch), None)
    if sealed is None or sealed.first != sequence or sequence == 1:
        return None
    return Head(epoch=epoch, sequence=sequence, hash=lines[epoch, sequence].hash)


def _add(lines: Lines, line: ArchiveLine, key: str) -> list[Break]:
    first = lines.setdefault(line.stream, {}).setdefault(line.place, line)
    if (first.hash, first.body) == (line.hash, line.body):
        return []
    detail = f"the archive holds two different entries for this position, one of them in {key}"
    return [Break(line.stream, *line.place, BreakKind.FORK, detail, key)]


def _missing_end(stream: Stream, scan: ChainScan, end: Position) -> Break:
    epoch, sequence = scan.position
    missing = (epoch, sequence + 1) if epoch == end[0] else (end[0], 1)
    detail = f"sealed up to {end[0]}/{end[1]}, found entries up to {epoch}/{sequence}"
    return Break(stream.name, *missing, BreakKind.GAP, detail)


def _object(cluster: str, key: str, problem: str) -> Break:
    return Break(cluster, 0, 0, BreakKind.OBJECT, f"{key}: {problem}", key)
