"""Anchor reader: collects the hashes of entries that are stored in the vault.

A verification compares the entries with these hashes. They are in anchors and sealed manifests, which cannot be
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from faultbridge.archive.anchor import AnchorDocument, read_anchor
from faultbridge.archive.manifests import Manifest
from faultbridge.errors import Rejected
from faultbridge.ledger.hash_chain import Break, BreakKind, KnownHash
from faultbridge.ledger.stream_seal import Position
from faultbridge.ledger.verify import AnchoredHashes
from faultbridge.ports.objects import Vault
from faultbridge.storage.wire import archive_lines as layout

Document = TypeVar("Document")


@dataclass(slots=True)
class _Collected:
    """The hashes of entries in the vault, by stream, and then by epoch and sequence number.

    `known` has the hashes from anchors and sealed manifests, `sealed` only those from sealed manifests. If the vault
    contains two different hashes of one entry, `known` keeps the hash that was read first. `anchors` counts the anchors
    and sealed manifests that could be read.
    """

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


@dataclass(frozen=True, slots=True)
class AnchorReader:
    """Reads the hashes of entries from the anchors and the sealed manifests in a vault.

    A vault is a bucket whose objects cannot be changed. An anchor has the hash of the last entry of every stream.
    """

    vault: Vault

    def __call__(self, cluster: str) -> AnchoredHashes:
        """Return the hashes of a cluster's entries from the anchors and sealed manifests in the vault.

        The result also contains breaks: one for each anchor or sealed manifest that cannot be read, and one if the
        vault has two different hashes of an entry.
        """
        collected = _Collected()
        for anchor in self._anchors(cluster, collected.breaks):
            collected.anchors += 1
            for stream, (epoch, sequence, hashed) in anchor.heads.items():
                collected.add(stream, epoch, sequence, KnownHash(hashed, f"anchor {anchor.at}"))
        for manifest in self._manifests(cluster, collected.breaks):
            collected.anchors += 1
            for one in manifest.ranges:
                known = KnownHash(one.hash, f"seal {manifest.day}")
                collected.add(one.stream, one.epoch, one.last, known)
                collected.sealed.setdefault(one.stream, {})[one.epoch, one.last] = known
        breaks = tuple(collected.breaks)
        return AnchoredHashes(collected.known, collected.sealed, self._recovered(), breaks, collected.anchors)

    def stack_id(self, cluster: str) -> str | None:
        """Return the stack id in the first readable anchor.

        If the vault has no readable anchor, the first readable sealed manifest is used. The result is None if the vault
        has neither.
        """
        anchor = next(self._anchors(cluster, []), None) or next(self._manifests(cluster, []), None)
        return anchor.stack_id if anchor else None

    def _recovered(self) -> frozenset[int]:
        """Return the numbers of the epochs that `faultbridge recover` has claimed.

        An epoch is one numbering of the entries of a stream. Before `faultbridge recover` starts an epoch, it stores an
        object with the number of the epoch in the vault.
        """
        return frozenset(int(key.removeprefix(layout.EPOCHS)[:4]) for key in self.vault.list(layout.EPOCHS))

    def _anchors(self, cluster: str, breaks: list[Break]) -> Iterator[AnchorDocument]:
        return self._read(cluster, layout.ANCHORS, read_anchor, breaks)

    def _manifests(self, cluster: str, breaks: list[Break]) -> Iterator[Manifest]:
        return self._read(cluster, layout.SEALED, lambda _, body: Manifest.read(body), breaks)

    def _read(
        self, cluster: str, folder: str, parse: Callable[[str, bytes], Document], breaks: list[Break]
    ) -> Iterator[Document]:
        for key in self.vault.list(f"{folder}cluster={cluster}/"):
            try:
                yield parse(key, self.vault.get(key) or b"")
            except Rejected as error:
                breaks.append(Break(cluster, 0, 0, BreakKind.OBJECT, f"{key}: {error.detail}", key))
