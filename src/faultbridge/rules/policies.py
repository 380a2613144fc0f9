"""Policies: immutable documents under the hash of their content, and which of them holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.policy import Policy
from faultbridge.errors import Rejected
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.codec import load
from faultbridge.storage.writes import Put


@dataclass(frozen=True, slots=True)
class Policies:
    """Puts and shows policies; a version never changes, so putting one twice is putting it once."""

    table: Table
    clock: Clock

    def put(self, document: Mapping[str, Any]) -> Policy:
        """Keep a document that carries its `version`, and let it hold for every cluster that names no other."""
        policy = load(Policy, document)
        now = self.clock.now()
        kept = items.item(keys.policy(policy.version), now, {"policy": dict(document)})
        pointer = items.item(keys.CURRENT_POLICY, now, {"version": policy.version})
        self.table.transact([Put(kept), Put(pointer)])
        return policy

    def current(self) -> dict[str, Any] | None:
        """Return the document that holds, or None while nobody put one."""
        pointer = self.table.get(keys.CURRENT_POLICY)
        return self.document(str(pointer["version"])) if pointer else None

    def document(self, version: str) -> dict[str, Any]:
        """Return one version's document; `unknown_policy` when it is not kept."""
        found = self.table.get(keys.policy(version))
        if found is None or not isinstance(found["policy"], dict):
            raise Rejected("unknown_policy", f"there is no policy {version}")
        return found["policy"]
