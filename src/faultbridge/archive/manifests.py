"""Manifests: a manifest lists the archive objects and the ranges of entries of one sealed day."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.entries import canonical_json
from faultbridge.errors import Rejected


@dataclass(frozen=True, slots=True)
class SealedObject:
    """One archive object in a manifest, with its number of lines and its hash at the time of the seal."""

    key: str
    sha256: str
    lines: int


@dataclass(frozen=True, slots=True)
class SealedRange:
    """Consecutive entries of one stream with their first and last sequence number.

    All entries are of one epoch, which is one numbering of the stream. `hash` is the hash of the last entry.
    """

    stream: str
    node: str | None
    epoch: int
    first: int
    last: int
    hash: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a sealed day of one cluster: its archive objects, and ranges of entries by stream.

    `after` is the latest day before `day` that had a manifest at the time of the seal, or None if there was none.
    """

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
        return canonical_json({"version": 1, **asdict(self)}).encode()

    @classmethod
    def read(cls, body: bytes) -> Manifest:
        """Parse a manifest. Raises `Rejected` (`bad_object`) if `body` is not a manifest."""
        try:
            found: dict[str, Any] = json.loads(body)
            objects = tuple(SealedObject(**one) for one in found.pop("objects"))
            ranges = tuple(SealedRange(**one) for one in found.pop("ranges"))
            del found["version"]
            return cls(**found, objects=objects, ranges=ranges)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Rejected("bad_object", "the object is not a manifest; restore its previous version") from None


def sealed_ends(manifests: Iterable[Manifest]) -> dict[str, tuple[int, int]]:
    """Return the epoch and sequence number of the last sealed entry of each stream, by stream name."""
    ends: dict[str, tuple[int, int]] = {}
    for manifest in manifests:
        for one in manifest.ranges:
            ends[one.stream] = max(ends.get(one.stream, (0, 0)), (one.epoch, one.last))
    return ends
