"""Archive verification: checks an archive against its manifests, its hash chains and the vault.

It reads only the stored objects, so it works without a deployed stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

from faultbridge.archive.anchor_reader import AnchorReader
from faultbridge.archive.manifests import Manifest, sealed_ends
from faultbridge.archive.read import ReadArchive
from faultbridge.domain.entries import Stream
from faultbridge.domain.nodes import Head
from faultbridge.errors import Rejected
from faultbridge.ledger.entry_attributes import archive_form
from faultbridge.ledger.hash_chain import Break, BreakKind, ChainScan
from faultbridge.ledger.stream_seal import Position
from faultbridge.ledger.verify import AnchoredHashes, Verified
from faultbridge.ports.objects import Archive, Vault
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.wire.archive_lines import ArchiveLine

Lines = dict[str, dict[Position, ArchiveLine]]


@dataclass(slots=True)
class _ArchiveContent:
    manifests: list[Manifest] = field(default_factory=list)
    lines: Lines = field(default_factory=dict)
    breaks: list[Break] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class VerifyArchive:
    """Verifies the archive of a cluster against its manifests and hash chains.

    A vault is a bucket of locked objects. If `vault` is not None, the archive is also compared with the manifests and
    anchors in it. `stack_id` is the id of the stack. If it is None, a manifest or an anchor must name the stack.
    """

    archive: Archive
    vault: Vault | None = None
    stack_id: str | None = None

    def __call__(self, cluster: str, node: str | None = None) -> Verified:
        """Verify the stream of one node, or all streams of the cluster if `node` is None.

        The result contains the number of verified streams and entries, and the breaks that were found. Defects of
        objects in the archive and the vault are reported for the whole cluster, even if `node` is given. Raises
        `Rejected` (`no_stack_id`) if `stack_id` is None and no manifest or anchor names the stack.
        """
        content = _ArchiveContent()
        self._read_manifests(cluster, content)
        self._read_lines(cluster, content)
        anchored = AnchorReader(self.vault)(cluster) if self.vault else AnchoredHashes()
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
        stack_id = stack_id or (AnchorReader(self.vault).stack_id(cluster) if self.vault else None)
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
        verified.breaks += scan.check(asdict(lines[position]))
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
