"""Verifying an archive without its stack: objects against manifests, chains, and what others saw."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

from faultbridge.archive.anchor_reader import AnchorReader
from faultbridge.archive.manifests import Manifest, ends
from faultbridge.archive.read import ReadArchive
from faultbridge.domain.entries import Stream
from faultbridge.domain.nodes import Head
from faultbridge.errors import Rejected
from faultbridge.ledger.chain import Break, BreakKind, Walk
from faultbridge.ledger.verify import Seen, Verified
from faultbridge.ports.objects import Archive, Vault
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.wire.archive_lines import ArchiveLine

Lines = dict[str, dict[tuple[int, int], ArchiveLine]]


@dataclass(slots=True)
class _Found:
    """Everything that an archive holds of a cluster, and what is wrong with its objects."""

    manifests: list[Manifest] = field(default_factory=list)
    lines: Lines = field(default_factory=dict)
    breaks: list[Break] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class VerifyArchive:
    """Verifies a cluster's archive; with a vault also against what only the vault knows."""

    archive: Archive
    vault: Vault | None = None
    stack_id: str | None = None

    def __call__(self, cluster: str, node: str | None = None) -> Verified:
        """Verify one node's stream or all of a cluster's; `no_stack_id` where nothing says whose record it is."""
        found = _Found()
        self._manifests(cluster, found)
        self._lines(cluster, found)
        seen = AnchorReader(self.vault)(cluster) if self.vault else Seen()
        verified = Verified(breaks=[*found.breaks, *seen.breaks])
        stack_id = self._whose(cluster, found)
        wanted = None if node is None else f"{cluster}/{node}"
        for name in sorted({*found.lines, *ends(found.manifests), *seen.points}):
            if wanted in {None, name}:
                stream = Stream(stack_id, "", cluster, name.partition("/")[2] or None)
                self._stream(stream, found, seen, verified)
        return verified

    def _whose(self, cluster: str, found: _Found) -> str:
        told = self.stack_id or next((manifest.stack_id for manifest in found.manifests), None)
        told = told or (AnchorReader(self.vault).stack_id(cluster) if self.vault else None)
        if told is None:
            raise Rejected("no_stack_id", f"no sealed day says whose record {cluster} is")
        return told

    def _manifests(self, cluster: str, found: _Found) -> None:
        for key in self.archive.list(f"{layout.MANIFESTS}cluster={cluster}/"):
            body = self.archive.get(key) or b""
            if self.vault is not None and self.vault.get(layout.sealed_key(key)) != body:
                found.breaks.append(_object(cluster, key, "it is not the manifest that was sealed"))
            try:
                manifest = Manifest.read(body)
            except Rejected as error:
                found.breaks.append(_object(cluster, key, error.detail))
                continue
            found.manifests.append(manifest)
            found.breaks += self._parts(manifest)
        if self.vault is not None:
            there = set(self.archive.list(f"{layout.MANIFESTS}cluster={cluster}/"))
            for locked in self.vault.list(f"{layout.SEALED}cluster={cluster}/"):
                key = layout.MANIFESTS + locked.removeprefix(layout.SEALED)
                if key not in there:
                    found.breaks.append(_object(cluster, key, "it was sealed and is gone"))

    def _parts(self, manifest: Manifest) -> Iterator[Break]:
        for part in manifest.parts:
            body = self.archive.get(part.key)
            if body is None:
                yield _object(manifest.cluster, part.key, f"it was sealed with {manifest.day} and is gone")
            elif layout.digest(body) != part.sha256:
                yield _object(manifest.cluster, part.key, f"it is not what was sealed with {manifest.day}")

    def _lines(self, cluster: str, found: _Found) -> None:
        reader = ReadArchive(self.archive)
        for key in reader.objects(cluster):
            try:
                for line in reader.lines([key]):
                    found.breaks += _take(found.lines, line, key)
            except Rejected as error:
                found.breaks.append(_object(cluster, key, error.detail))

    def _stream(self, stream: Stream, found: _Found, seen: Seen, verified: Verified) -> None:
        verified.streams += 1
        lines = found.lines.get(stream.name, {})
        start = _start(stream, lines, found.manifests)
        walk = Walk(stream, start, seen.of(stream.name), seen.restored)
        for place in sorted(lines):
            verified.entries += 1
            if place == walk.place:
                continue  # what came before it was deleted on purpose, so it is where trust begins
            verified.breaks += walk.take(asdict(lines[place]))
        sealed = ends(found.manifests).get(stream.name)
        cut = [] if sealed is None or sealed <= walk.place else [_cut(stream, walk, sealed)]
        verified.breaks += cut or walk.unseen()


def _start(stream: Stream, lines: dict[tuple[int, int], ArchiveLine], manifests: Iterable[Manifest]) -> Head | None:
    """Return where an archive begins whose oldest days were deleted on purpose: the seal of the last one of those."""
    known = list(manifests)
    first = min(known, key=lambda manifest: manifest.day, default=None)
    if first is None or first.after is None or not lines:
        return None
    epoch, sequence = min(lines)
    stretch = next((one for one in first.stretches if one.stream == stream.name and one.epoch == epoch), None)
    if stretch is None or stretch.first != sequence or sequence == 1:
        return None
    line = lines[epoch, sequence]
    return Head(epoch=epoch, sequence=sequence, hash=line.hash)


def _take(lines: Lines, line: ArchiveLine, key: str) -> list[Break]:
    known = lines.setdefault(line.stream, {}).setdefault(line.place, line)
    if (known.hash, known.body) == (line.hash, line.body):
        return []
    said = f"the archive holds two entries of this place, one of them in {key}"
    return [Break(line.stream, *line.place, BreakKind.FORK, said, key)]


def _cut(stream: Stream, walk: Walk, sealed: tuple[int, int]) -> Break:
    epoch, sequence = walk.place
    place = (epoch, sequence + 1) if epoch == sealed[0] else (sealed[0], 1)
    return Break(stream.name, *place, BreakKind.GAP, f"sealed up to {sealed[0]}/{sealed[1]}, found {epoch}/{sequence}")


def _object(cluster: str, key: str, said: str) -> Break:
    return Break(cluster, 0, 0, BreakKind.OBJECT, f"{key}: {said}", key)
