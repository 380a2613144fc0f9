"""The archive: where its objects lie and what their lines hold. gzip, one JSON object a line, by cluster and day.

A line carries the stored body as it was hashed, so the archive alone proves what the table proved. Lines may come
twice and in any order: whoever reads them goes by stream, epoch and sequence.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from faultbridge.domain.entries import canonical_json
from faultbridge.errors import Rejected

LINES = "archive/"
MANIFESTS = "manifests/"
SEALED = "sealed/"
ANCHORS = "anchors/"
EPOCHS = "epochs/"


@dataclass(frozen=True, slots=True)
class ArchiveLine:
    """One entry as it is archived; `recorded_at` is RFC 3339, `hash` covers `body` and the entry before it."""

    stream: str
    cluster: str
    node: str | None
    epoch: int
    sequence: int
    event_id: str
    type: str
    severity: str | None
    case_id: str | None
    device: str | None
    recorded_at: str
    body: str
    hash: str
    evidence: str = ""

    @property
    def day(self) -> str:
        """Return the UTC day under which the line is kept."""
        return self.recorded_at[:10]

    @property
    def place(self) -> tuple[int, int]:
        """Return where the line stands in its stream."""
        return self.epoch, self.sequence


_NAMES = tuple(field.name for field in fields(ArchiveLine))
_NEEDED = ("stream", "cluster", "epoch", "sequence", "event_id", "type", "recorded_at", "body", "hash")


def line_of(entry: Mapping[str, Any]) -> ArchiveLine:
    """Make the line of an entry's item."""
    node = entry.get("node")
    cluster = str(entry["cluster"])
    told: dict[str, Any] = {name: entry.get(name) for name in _NAMES}
    told["stream"] = cluster if node is None else f"{cluster}/{node}"
    told["epoch"], told["sequence"] = int(entry["epoch"]), int(entry["sequence"])
    told["evidence"] = str(entry.get("evidence") or "")
    return ArchiveLine(**told)


def render(line: ArchiveLine) -> bytes:
    """Render a line, with its end."""
    return canonical_json(asdict(line)).encode() + b"\n"


def pack(lines: Iterable[ArchiveLine]) -> bytes:
    """Make an object of lines; the same lines make the same bytes."""
    return gzip.compress(b"".join(map(render, lines)), mtime=0)


def unpack(body: bytes) -> Iterator[ArchiveLine]:
    """Read the lines of an object; `bad_object` where it is none, from there on."""
    try:
        texts = gzip.decompress(body).splitlines()
    except (OSError, EOFError, zlib.error) as error:
        raise Rejected("bad_object", f"it cannot be unpacked: {error}") from None
    for number, text in enumerate(texts, 1):
        try:
            yield _line(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise Rejected("bad_object", f"line {number} is no entry") from None


def _line(found: Mapping[str, Any]) -> ArchiveLine:
    if not all(isinstance(found[name], str | int) for name in _NEEDED):
        raise TypeError
    told: dict[str, Any] = {name: found.get(name) for name in _NAMES}
    return ArchiveLine(**told | {"evidence": found.get("evidence") or ""})


def object_key(cluster: str, day: str, body: bytes, label: str = "part") -> str:
    """Return where an object of lines is kept: its content names it, so keeping it twice is keeping it once."""
    return f"{day_prefix(cluster, day)}{label}-{digest(body)[:32]}.jsonl.gz"


def day_prefix(cluster: str, day: str) -> str:
    """Return where the lines of one cluster and day are kept; `day` may be a beginning of one."""
    return f"{cluster_prefix(cluster)}day={day}/"


def cluster_prefix(cluster: str) -> str:
    """Return where the lines of a cluster are kept."""
    return f"{LINES}cluster={cluster}/"


def day_of(key: str) -> str:
    """Return the day of an object of lines."""
    return key.split("/day=", 1)[-1][:10]


def manifest_key(cluster: str, day: str) -> str:
    """Return where the manifest of a sealed day is kept."""
    return f"{MANIFESTS}cluster={cluster}/day={day}.json"


def sealed_key(manifest: str) -> str:
    """Return where the copy of a manifest is kept that nobody can change."""
    return SEALED + manifest.removeprefix(MANIFESTS)


def anchor_key(cluster: str, hour: str) -> str:
    """Return where the anchor of an hour is kept."""
    return f"{ANCHORS}cluster={cluster}/{hour}.json.gz"


def digest(body: bytes) -> str:
    """Return the SHA-256 of an object, in hexadecimal."""
    return hashlib.sha256(body).hexdigest()
