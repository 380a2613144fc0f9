"""Manifests: what a sealed day holds, object by object and stream by stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from faultbridge.domain.entries import canonical_json
from faultbridge.errors import Rejected


@dataclass(frozen=True, slots=True)
class Part:
    """One object of the archive as it was when the day was sealed."""

    key: str
    sha256: str
    lines: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Entries of one stream and epoch that follow one another; `hash` is the last one's."""

    stream: str
    node: str | None
    epoch: int
    first: int
    last: int
    hash: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A sealed day of one cluster; `after` is the day whose seal came before."""

    stack: str
    stack_id: str
    cluster: str
    day: str
    sealed_at: str
    entries: int
    parts: tuple[Part, ...]
    stretches: tuple[Stretch, ...]
    after: str | None = None

    def render(self) -> bytes:
        """Render the manifest; the same manifest is the same bytes."""
        return canonical_json({"version": 1, **asdict(self)}).encode()

    @classmethod
    def read(cls, body: bytes) -> Manifest:
        """Read a manifest; `bad_object` when it is none."""
        try:
            found: dict[str, Any] = json.loads(body)
            parts = tuple(Part(**one) for one in found.pop("parts"))
            stretches = tuple(Stretch(**one) for one in found.pop("stretches"))
            del found["version"]
            return cls(**found, parts=parts, stretches=stretches)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Rejected("bad_object", "it is no manifest") from None


def ends(manifests: Iterable[Manifest]) -> dict[str, tuple[int, int]]:
    """Return up to where each stream is sealed."""
    sealed: dict[str, tuple[int, int]] = {}
    for manifest in manifests:
        for one in manifest.stretches:
            sealed[one.stream] = max(sealed.get(one.stream, (0, 0)), (one.epoch, one.last))
    return sealed
