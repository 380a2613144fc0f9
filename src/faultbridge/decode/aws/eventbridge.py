"""Reads AWS events from EventBridge, and the instance ids in names and ARNs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import members, text
from faultbridge.decode.frames.documents import objects, text_of

_INSTANCE = re.compile(r"(?:.{0,256}/)?(i-[0-9a-f]{8,17})")


class CloudEvent(Struct, frozen=True):
    """One EventBridge event: `detail-type` as `kind`, `detail`, `time` as `at`, and `id`."""

    kind: str
    detail: Mapping[str, Any]
    at: datetime | None
    id: str | None


def cloud_events(body: bytes, source: str) -> Iterator[CloudEvent]:
    """Yield the EventBridge events of one source, such as `aws.ec2`, in a body."""
    for _, document in objects(text_of(body)):
        if document.get("source") == source and isinstance(document.get("detail"), dict):
            kind = text(document.get("detail-type", document.get("detail_type")), 128) or ""
            yield CloudEvent(
                kind, members(document["detail"]), instant(document.get("time")), text(document.get("id"), 64)
            )


def instance_of(name: object) -> str | None:
    """Return the instance id in `name`, or None if it contains none.

    `name` is the id itself, or a text with the id after its last slash, such as an ARN.
    """
    # The ARN of a Spot event has neither region nor account.
    found = _INSTANCE.fullmatch(text(name, 512) or "")
    return found[1] if found else None
