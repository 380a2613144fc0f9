"""Checks that repairs wait while the owner of the group updates it, and that each repair has a reason.

The module also checks that the cluster's state shows whether the provider repairs nodes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from faultbridge.model.times import from_text, truncate
from tests.sim.invariants.view import Invariant, SystemView
from tests.sim.simulated_system import REPAIRED

READ_BEFORE = timedelta(minutes=3)
"""How long a function may act on a registration that it read before the update was known, as on AWS."""

ABSENCES = frozenset({"cloud.instance_gone", "cloud.instance_stopped", "host.silent"})
REASONS = frozenset({"Node Fault Detected", "Node Fault Updated"})
CHANGING = frozenset({"reset_gpu", "reboot_node", "replace_node"})


Body = dict[str, Any]


def intents(view: SystemView) -> Iterator[tuple[Body, datetime]]:
    """Yield each recorded intent to change an instance of the `REPAIRED` cluster, with its time."""
    for entries in view.bodies.values():
        for body in entries:
            data = body["data"]
            committed = (data.get("step"), data.get("outcome")) == ("intent", "committed")
            if committed and data["repair_action"] in CHANGING and body["metadata"]["cluster"] == REPAIRED:
                yield body, recorded_at(body)


def recorded_at(body: Body) -> datetime:
    """Return the time at which an entry was recorded."""
    return from_text(body["metadata"]["recorded_at"])


def _repaired_during_update(view: SystemView) -> Iterator[str]:
    for body, at in intents(view):
        if any(one.holds(at, after=READ_BEFORE) for one in view.system.owner.updates):
            yield f"{body['metadata']['stream']} {body['metadata']['sequence']} at {at:%d %H:%M:%S}"


def _absent_during_update(view: SystemView) -> Iterator[str]:
    updates = view.system.owner.updates
    for entries in view.bodies.values() if updates else ():
        for body in entries:
            meta, data = body["metadata"], body["data"]
            opened = meta["event_type"] == "Case Status Change" and data["from"] is None
            if not opened or meta["cluster"] != REPAIRED or data["cause"]["code"] not in ABSENCES:
                continue
            left = _left_at(entries, recorded_at(body))
            if any(one.holds(recorded_at(body), after=READ_BEFORE) and left >= one.begun for one in updates):
                yield f"{meta['stream']} {meta['sequence']}: {data['cause']['code']}"


def _left_at(entries: Iterable[Body], at: datetime) -> datetime:
    """Return when the node's instance was found to be gone before `at`; `at` if no entry says so."""
    changes = [
        one for one in entries if one["metadata"]["event_type"] == "Node Status Change" and recorded_at(one) < at
    ]
    return recorded_at(changes[-1]) if changes and changes[-1]["data"]["to"] == "provisioning" else at


def _unnamed_rival(view: SystemView) -> Iterator[str]:
    yield from view.system.owner.unnamed


def _given_up_without_reason(view: SystemView) -> Iterator[str]:
    for body, at in intents(view):
        instance = view.ports.fleet.instances[body["data"]["old_instance"]]
        entries = view.bodies[f"NODE#{body['metadata']['cluster']}#{body['metadata']['node']}"]
        launched_at = truncate(instance.launched_at)  # to the precision of recorded times
        since = [one for one in entries if launched_at <= recorded_at(one) <= at]
        if not any(map(_is_reason, since)):
            yield f"{body['metadata']['stream']} {body['metadata']['sequence']}: {instance.instance_id}"


def _is_reason(body: Body) -> bool:
    data = body["data"]
    if body["metadata"]["event_type"] in REASONS:
        return True
    return (data.get("step") == "verify" and data["outcome"] != "passed") or "order" in data.get("facts", {})


INVARIANTS = (
    Invariant("no repair starts in a group while its owner updates it", _repaired_during_update),
    Invariant("a node that leaves in an update opens no case for its absence", _absent_during_update),
    Invariant("the cluster names a rival exactly while it repairs", _unnamed_rival),
    Invariant("an instance is changed only for a reason that was recorded since its launch", _given_up_without_reason),
)
