"""Stores immutable policy documents. The version of a policy is a part of the hash of its document."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from faultbridge.model.errors import UnknownName
from faultbridge.model.policy import Policy, PolicyDocument
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import load
from faultbridge.model.storage.keys import CURRENT_POLICY
from faultbridge.model.storage.writes import Item, Key, Path, Put, Update, Value
from faultbridge.model.times import from_text
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all

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


def read_listed_policy(row: Item) -> StoredPolicy:
    """Return a stored policy version from its row in the list of all versions."""
    return StoredPolicy(
        str(row["version"]), from_text(str(row["updated_at"])), str(row["put_by"]) if row["put_by"] else None
    )


@dataclass(frozen=True, slots=True)
class PolicyStore:
    """Stores and reads policies, and selects the current policy and the shadow policy."""

    table: Table
    clock: Clock

    def put(self, document: PolicyDocument, by: str | None = None) -> Policy:
        """Store a policy document and make it the policy of each cluster whose registration names none."""
        return self._store(document, by, "version")

    def put_shadow(self, document: PolicyDocument, by: str | None = None) -> Policy:
        """Store a policy as the shadow policy, whose decisions are recorded without effect."""
        return self._store(document, by, "shadow")

    def _store(self, document: PolicyDocument, by: str | None, role: str) -> Policy:
        """Store a policy document in the role `version` (current) or `shadow`; the other role does not change."""
        policy = load(Policy, document)
        now = self.clock.now()
        stored = items.item(keys.policy(policy.version), now, {"policy": dict(document)})
        pointer = items.item(keys.CURRENT_POLICY, now, {role: policy.version})
        pointed: dict[Path, Value] = {(name,): value for name, value in pointer.items() if name not in {"pk", "sk"}}
        listed = listed_policy_item(StoredPolicy(policy.version, now, by))
        self.table.transact([Put(stored), Update(keys.CURRENT_POLICY, set=pointed), Put(listed)])
        return policy

    def reset(self) -> None:
        """Make the packaged default policy the current policy again; stored versions are kept."""
        self.table.write(Update(keys.CURRENT_POLICY, remove=(("version",),)))

    def end_shadow(self) -> None:
        """Deselect the shadow policy, so that there is no shadow policy; its stored version is kept."""
        self.table.write(Update(keys.CURRENT_POLICY, remove=(("shadow",),)))

    def shadow(self) -> str | None:
        """Return the version of the shadow policy, or None if there is no shadow policy."""
        found = (self.table.get(keys.CURRENT_POLICY) or {}).get("shadow")
        return str(found) if found else None

    def stored(self) -> tuple[StoredPolicy, ...]:
        """Return every stored policy version, with the time and operator of its last storage, latest first."""
        listed = query_all(self.table, keys.CURRENT_POLICY.pk, prefix=LISTED_POLICY)
        return tuple(sorted(map(read_listed_policy, listed), key=lambda one: one.put_at, reverse=True))

    def current(self) -> PolicyDocument | None:
        """Return the document of the current policy, or None if the packaged default policy is current."""
        version = (self.table.get(keys.CURRENT_POLICY) or {}).get("version")
        return self.document(str(version)) if version else None

    def document(self, version: str) -> PolicyDocument:
        """Return the document of a policy version. Raises Rejected `unknown_policy` for an unknown version."""
        found = self.table.get(keys.policy(version))
        if found is None or not isinstance(found["policy"], dict):
            raise UnknownName("policy", version)
        return found["policy"]
