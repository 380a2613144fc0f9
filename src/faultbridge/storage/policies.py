"""The list of policy versions: one row for each version that was ever stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.domain.times import from_text
from faultbridge.storage import items
from faultbridge.storage.keys import CURRENT_POLICY
from faultbridge.storage.writes import Item, Key

LISTED_POLICY = "VERSION#"


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """A stored policy version, when it was last stored, and by which operator if that is known."""

    version: str
    put_at: datetime
    put_by: str | None


def listed_policy(version: str) -> Key:
    """Return the table key of a policy version's row in the list of all versions."""
    return Key(CURRENT_POLICY.pk, f"{LISTED_POLICY}{version}")


def listed_policy_item(stored: StoredPolicy) -> Item:
    """Return the row of a policy version for the list of all versions."""
    attributes = {"version": stored.version, "put_by": stored.put_by}
    return items.item(listed_policy(stored.version), stored.put_at, attributes)


def read_listed_policy(row: Mapping[str, Any]) -> StoredPolicy:
    """Return a stored policy version from its row in the list of all versions."""
    return StoredPolicy(row["version"], from_text(row["updated_at"]), row["put_by"])
