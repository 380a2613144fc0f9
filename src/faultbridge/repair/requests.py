"""Requests with a key of their client: an order under a key is executed once, however often it is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.entries import Transition
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Absent, Item, Put
from faultbridge.model.times import to_milliseconds
from faultbridge.model.values import replace
from faultbridge.record.ports import Table

KEPT = timedelta(days=7)
"""How long an executed order is recorded under its key."""


class RequestKey(Struct, frozen=True):
    """The key of a request, which belongs to one person, and the digest of what the request orders."""

    token: str
    digest: str

    def is_executed(self, table: Table) -> bool:
        """Return whether the order was executed; raises Rejected `key_reused` if the key named another order."""
        found = table.get(keys.order(self.token))
        if found is not None and found["digest"] != self.digest:
            raise Rejected("key_reused", "the key was used for another order; give each order a key of its own")
        return found is not None

    def executed(self, now: datetime) -> Put:
        """Return the write that records the order as executed; a concurrent execution makes it a conflict."""
        expires_at = to_milliseconds(now + KEPT) // 1000
        row: Item = {"digest": self.digest, "expires_at": expires_at}
        return Put(items.item(keys.order(self.token), now, row), when=Absent())


def request_key(person: str, key: str, order: object) -> RequestKey:
    """Return the request key for an order (plain JSON) that a person gave under a key."""
    token = hashlib.sha256(f"{person}\n{key}".encode()).hexdigest()
    return RequestKey(token, hashlib.sha256(canonical_json(order).encode()).hexdigest())


Revise = Callable[[NodeState, datetime], Transition]


def once(table: Table, request: RequestKey | None, revise: Revise) -> Revise:
    """Return a function that computes the transition of an order unless the order was executed under its key.

    The transition records the key in its own transaction. A transition without entries changes nothing, so its key is
    not recorded.
    """
    if request is None:
        return revise

    def revised(state: NodeState, now: datetime) -> Transition:
        if request.is_executed(table):
            return Transition(state)
        transition = revise(state, now)
        if not transition.drafts:
            return transition
        return replace(transition, writes=(*transition.writes, request.executed(now)))

    return revised
