"""AnchorReader: what the vault says of a cluster's hashes, for whoever verifies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from faultbridge.archive.anchor import Anchored, read_anchor
from faultbridge.archive.manifests import Manifest
from faultbridge.errors import Rejected
from faultbridge.ledger.chain import Break, BreakKind, Point
from faultbridge.ledger.verify import Seen
from faultbridge.ports.objects import Vault
from faultbridge.storage.wire import archive_lines as layout

T = TypeVar("T")


@dataclass(slots=True)
class _Gathering:
    """Points by stream and place, the first anchor of each; a later one that disagrees is a break."""

    points: dict[str, dict[tuple[int, int], Point]] = field(default_factory=dict)
    sealed: dict[str, dict[tuple[int, int], Point]] = field(default_factory=dict)
    breaks: list[Break] = field(default_factory=list)
    anchors: int = 0

    def add(self, stream: str, epoch: int, sequence: int, point: Point) -> None:
        """Take over what one anchor says of one entry."""
        known = self.points.setdefault(stream, {}).setdefault((epoch, sequence), point)
        if known.hash != point.hash:
            said = f"{known.anchor} and {point.anchor} saw different hashes: it was rewritten between them"
            self.breaks.append(Break(stream, epoch, sequence, BreakKind.ANCHOR, said))


@dataclass(frozen=True, slots=True)
class AnchorReader:
    """Reads anchors and sealed manifests."""

    vault: Vault

    def __call__(self, cluster: str) -> Seen:
        """Gather everything that the vault saw of a cluster; what is there and cannot be read is a break."""
        gathering = _Gathering()
        for anchored in self._anchors(cluster, gathering):
            gathering.anchors += 1
            for stream, (epoch, sequence, hashed) in anchored.heads.items():
                gathering.add(stream, epoch, sequence, Point(hashed, f"anchor {anchored.at}"))
        for manifest in self._manifests(cluster, gathering):
            gathering.anchors += 1
            for one in manifest.stretches:
                point = Point(one.hash, f"seal {manifest.day}")
                gathering.add(one.stream, one.epoch, one.last, point)
                gathering.sealed.setdefault(one.stream, {})[one.epoch, one.last] = point
        restored, breaks = self.restored(), tuple(gathering.breaks)
        return Seen(gathering.points, gathering.sealed, restored, breaks, gathering.anchors)

    def restored(self) -> frozenset[int]:
        """Return the epochs that restores began."""
        return frozenset(int(key.removeprefix(layout.EPOCHS)[:4]) for key in self.vault.list(layout.EPOCHS))

    def stack_id(self, cluster: str) -> str | None:
        """Return whose record it is, by any anchor."""
        gathering = _Gathering()
        found = next(self._anchors(cluster, gathering), None) or next(self._manifests(cluster, gathering), None)
        return found.stack_id if found else None

    def _anchors(self, cluster: str, gathering: _Gathering) -> Iterator[Anchored]:
        for key in self.vault.list(f"{layout.ANCHORS}cluster={cluster}/"):
            try:
                yield read_anchor(key, self.vault.get(key) or b"")
            except Rejected as error:
                gathering.breaks.append(_unreadable(cluster, key, error))

    def _manifests(self, cluster: str, gathering: _Gathering) -> Iterator[Manifest]:
        for key in self.vault.list(f"{layout.SEALED}cluster={cluster}/"):
            try:
                yield Manifest.read(self.vault.get(key) or b"")
            except Rejected as error:
                gathering.breaks.append(_unreadable(cluster, key, error))


def _unreadable(cluster: str, key: str, error: Rejected) -> Break:
    return Break(cluster, 0, 0, BreakKind.OBJECT, f"{key}: {error.detail}", key)
