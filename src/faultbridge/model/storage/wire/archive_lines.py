"""Archive lines: timeline entries as gzipped JSON lines in S3, by cluster and day.

A line contains the entry's body exactly as it was hashed, so that the hash chain can be verified from the archive
alone. Lines may be duplicated and unordered. Readers sort them by stream, epoch and sequence.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct, to_builtins

from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.errors import Rejected
from faultbridge.model.storage.writes import Item

LINES = "archive/"
MANIFESTS = "manifests/"
SEALED = "sealed/"
ANCHORS = "anchors/"
EPOCHS = "epochs/"


class ArchiveLine(Struct, frozen=True, kw_only=True):
    """One archived timeline entry. `recorded_at` is RFC 3339 text.

    `hash` covers `body` and the previous entry's hash.
    """

    stream: str
    cluster: str
    node: str | None = None
    epoch: int
    sequence: int
    event_id: str
    type: str
    severity: str | None = None
    case_id: str | None = None
    device: str | None = None
    recorded_at: str
    body: str
    hash: str
    evidence: str = ""

    @property
    def day(self) -> str:
        """Return the UTC day of the archive line, which is part of its S3 object's key."""
        return self.recorded_at[:10]

    @property
    def place(self) -> tuple[int, int]:
        """Return the position of the line in its entry stream: epoch and sequence."""
        return self.epoch, self.sequence


def line_of(entry: Item) -> ArchiveLine:
    """Return the archive line for the table item of a timeline entry."""
    node, cluster = entry.get("node"), entry["cluster"]
    stream = cluster if node is None else f"{cluster}/{node}"
    return msgspec.convert({**entry, "stream": stream, "evidence": entry.get("evidence") or ""}, ArchiveLine)


def render(line: ArchiveLine) -> bytes:
    """Return an archive line as JSON bytes with a newline."""
    return canonical_json(to_builtins(line)).encode() + b"\n"


def pack(lines: Iterable[ArchiveLine]) -> bytes:
    """Return the content of an S3 object with these lines; equal lines in equal order give equal bytes."""
    return gzip.compress(b"".join(map(render, lines)), mtime=0)


def unpack(body: bytes) -> Iterator[ArchiveLine]:
    """Yield the lines of an archive object; invalid gzip data or lines raise Rejected `bad_object`."""
    try:
        texts = gzip.decompress(body).splitlines()
    except (OSError, EOFError, zlib.error) as error:
        raise Rejected("bad_object", f"invalid gzip data: {error}; expected a gzip object of JSON lines") from None
    for number, text in enumerate(texts, 1):
        try:
            yield msgspec.json.decode(text, type=ArchiveLine)
        except ValueError:
            raise Rejected("bad_object", f"invalid archive line: {number}; expected an entry as JSON") from None


def object_key(cluster: str, day: str, body: bytes, label: str = "part") -> str:
    """Return the S3 key of an archive object; a hash of its body makes a repeated write idempotent."""
    return f"{day_prefix(cluster, day)}{label}-{digest(body)[:32]}.jsonl.gz"


def day_prefix(cluster: str, day: str) -> str:
    """Return the S3 key prefix of the archive lines of one cluster and day."""
    return f"{cluster_prefix(cluster)}day={day}/"


def cluster_prefix(cluster: str) -> str:
    """Return the S3 key prefix of the archive lines of a cluster."""
    return f"{LINES}cluster={cluster}/"


def day_of(key: str) -> str:
    """Return the day that the S3 key of an archive object contains."""
    return key.split("/day=", 1)[-1][:10]


def manifest_key(cluster: str, day: str) -> str:
    """Return the S3 key of the manifest of a sealed day of the archive."""
    return f"{MANIFESTS}cluster={cluster}/day={day}.json"


def sealed_key(manifest: str) -> str:
    """Return the S3 key of the immutable copy of a manifest."""
    return SEALED + manifest.removeprefix(MANIFESTS)


def anchor_key(cluster: str, hour: str) -> str:
    """Return the S3 key of the anchor object of one hour.

    An anchor is a locked record of where every entry stream ends.
    """
    return f"{ANCHORS}cluster={cluster}/{hour}.json.gz"


def digest(body: bytes) -> str:
    """Return the SHA-256 hash of an archive object in hexadecimal."""
    return hashlib.sha256(body).hexdigest()
