"""Evidence: the raw report behind an outcome, a part of it in the entry and the whole of it in the bucket."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from faultbridge.domain.nodes import NodeKey
from faultbridge.ports import ObjectStore
from faultbridge.storage.message import raw_key

INLINE = 4096


def keep(objects: ObjectStore, key: NodeKey, report: bytes, now: datetime) -> tuple[str, dict[str, Any]]:
    """Return what of a report goes into the entry, and where the whole is kept if it is longer than 4 KB."""
    if len(report) <= INLINE:
        return report.decode(errors="replace"), {}
    place = raw_key(key.cluster, now, report)
    objects.put(place, report)
    return report[:INLINE].decode(errors="ignore"), {"report": place}
