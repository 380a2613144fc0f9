"""Policies: stores immutable policy documents under their version, the hash of their content."""

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
class PolicyStore:
    """Stores and reads policies. A version never changes, so storing a policy again has no effect on it."""

    table: Table
    clock: Clock

    def put(self, document: Mapping[str, Any]) -> Policy:
        """Store a document that contains its `version`, and make it current for clusters that name no version."""
        policy = load(Policy, document)
        now = self.clock.now()
        stored = items.item(keys.policy(policy.version), now, {"policy": dict(document)})
        pointer = items.item(keys.CURRENT_POLICY, now, {"version": policy.version})
        self.table.transact([Put(stored), Put(pointer)])
        return policy

    def current(self) -> dict[str, Any] | None:
        """Return the current document, or None when no policy was stored."""
        pointer = self.table.get(keys.CURRENT_POLICY)
        return self.document(str(pointer["version"])) if pointer else None

    def document(self, version: str) -> dict[str, Any]:
        """Return the document of a version. Raises Rejected `unknown_policy` when it is not stored."""
        found = self.table.get(keys.policy(version))
        if found is None or not isinstance(found["policy"], dict):
            raise Rejected("unknown_policy", f"policy {version} is not stored; store it with `faultbridge policy put`")
        return found["policy"]
