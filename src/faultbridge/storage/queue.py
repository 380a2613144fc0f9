"""Rows of the queue, read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.queue import QueuedCase
from faultbridge.domain.times import from_text

QUEUE = "QUEUE#"


def read_queued(cluster: str, found: Mapping[str, Any]) -> QueuedCase:
    """Read a waiting case; priority and time stand in the key, which is why it sorts."""
    _, priority, since, _ = str(found["sk"]).split("#", 3)
    waiting_for, not_before = found.get("waiting_for"), found.get("not_before")
    return QueuedCase(
        key=NodeKey(cluster, str(found["node"])),
        case=str(found["case"]),
        repair_action=RepairAction(found["repair_action"]),
        priority=int(priority),
        since=from_text(since),
        waiting_for=WaitingFor(waiting_for) if waiting_for else None,
        not_before=from_text(not_before) if not_before else None,
        rule=str(found.get("rule", "")),
        domain=_text(found.get("domain")),
        group=_text(found.get("group")),
        approved=bool(found.get("approved")),
        asking=bool(found.get("asking")),
    )


def _text(value: Any) -> str | None:  # noqa: ANN401 - what an item may hold
    return None if value is None else str(value)
