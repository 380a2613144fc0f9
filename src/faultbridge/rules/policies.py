"""Policies: stores immutable policy documents under their version, the hash of their content."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.policy import Policy
from faultbridge.errors import Rejected
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.codec import load
from faultbridge.storage.policies import LISTED_POLICY, StoredPolicy, listed_policy_item, read_listed_policy
from faultbridge.storage.writes import Delete, Item, Put


@dataclass(frozen=True, slots=True)
class PolicyStore:
    """Stores and reads policies. A version never changes, so storing a policy again has no effect on it."""

    table: Table
    clock: Clock

    def put(self, document: Mapping[str, Any], by: str | None = None) -> Policy:
        """Store a document that contains its `version`, and make it current for clusters that name no version.

        `by` is the operator's ARN for the list of versions.
        """
        policy = load(Policy, document)
        now = self.clock.now()
        stored = items.item(keys.policy(policy.version), now, {"policy": dict(document)})
        pointer = items.item(keys.CURRENT_POLICY, now, {"version": policy.version})
        listed = listed_policy_item(StoredPolicy(policy.version, now, by))
        self.table.transact([Put(stored), Put(pointer), Put(listed)])
        return policy

    def reset(self) -> None:
        """Make the packaged policy current for clusters that name no version. Stored versions stay."""
        self.table.write(Delete(keys.CURRENT_POLICY))

    def stored(self) -> tuple[StoredPolicy, ...]:
        """Return every stored version, the one that was put last first."""
        return tuple(sorted(map(read_listed_policy, self._listed()), key=lambda one: one.put_at, reverse=True))

    def _listed(self) -> Iterator[Item]:
        page = self.table.query(keys.CURRENT_POLICY.pk, prefix=LISTED_POLICY)
        yield from page.items
        while page.next is not None:
            page = self.table.query(keys.CURRENT_POLICY.pk, prefix=LISTED_POLICY, start=page.next)
            yield from page.items

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
