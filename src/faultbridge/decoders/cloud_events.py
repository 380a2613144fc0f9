"""Events of AWS as EventBridge carries them, and the instance ids in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.decoders.documents import objects, text_of
from faultbridge.decoders.fields import members, text
from faultbridge.decoders.instants import instant

_INSTANCE = re.compile(r"(?:.{0,256}/)?(i-[0-9a-f]{8,17})")


@dataclass(frozen=True, slots=True)
class CloudEvent:
    """One event: its kind, its detail, and when it happened."""

    kind: str
    detail: Mapping[str, Any]
    at: datetime | None
    id: str | None


def cloud_events(body: bytes, source: str) -> Iterator[CloudEvent]:
    """Yield the events of one AWS source among the documents of a body."""
    for _, written in objects(text_of(body)):
        if written.get("source") == source and isinstance(written.get("detail"), dict):
            kind = text(written.get("detail-type"), 128) or ""
            yield CloudEvent(
                kind, members(written["detail"]), instant(written.get("time")), text(written.get("id"), 64)
            )


def instance_of(name: object) -> str | None:
    """Return the instance id in a name or ARN; the ARN of a Spot event has neither region nor account."""
    found = _INSTANCE.fullmatch(text(name, 512) or "")
    return found[1] if found else None
