"""Checks that no instance is released without the evidence of capacity that the policy rule requires.

The evidence is the answer of the fake provider when the product queried the capacity for a successor.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from tests.sim.invariants.group_owner import Body, intents
from tests.sim.invariants.view import Invariant, SystemView


def _without_capacity(view: SystemView) -> Iterator[str]:
    for body, at in intents(view):
        data = body["data"]
        if data["repair_action"] != "replace_node" or data["facts"].get("spare"):
            continue
        if _has_successor(view, body, at):
            continue
        found = _last_answer(view, data["old_instance"], at)
        if found is None:
            yield f"{_place(body)}: the capacity was never asked for"
        elif found.evidence is CapacityEvidence.NONE:
            if not _may_release_unproven(view, body):
                yield f"{_place(body)}: without evidence of capacity and without an approval"
        elif not found.free:
            yield f"{_place(body)}: {found.reason}"


def _has_successor(view: SystemView, intent: Body, at: datetime) -> bool:
    """Return whether a successor was launched for the case before the intent to release the old instance.

    The result is False if the intent does not name the launch of a successor (`LAUNCH_FIRST`) as its evidence.
    """
    fleet, data = view.ports.fleet, intent["data"]
    case, old = intent["metadata"]["case_id"], data["old_instance"]
    return data["facts"].get("capacity_evidence") == CapacityEvidence.LAUNCH_FIRST and any(
        one.case == case and one.instance_id != old and one.launched_at - fleet.launch_delay <= at
        for one in fleet.instances.values()
    )


def _last_answer(view: SystemView, instance: str, until: datetime) -> Capacity | None:
    until += timedelta(milliseconds=1)  # entries have whole milliseconds
    answers = (one for one in reversed(view.ports.provider.capacity_answers) if one[0] < until)
    return next((capacity for _, asked, capacity in answers if asked == instance), None)


def _may_release_unproven(view: SystemView, intent: Body) -> bool:
    """Return whether an instance may be released without evidence of capacity.

    It may be released if an operator gave an approval in the case. It may also be released if the policy rule permits a
    release without capacity, and either a fault of the case is fatal or the node never served.
    """
    meta, data = intent["metadata"], intent["data"]
    before = [
        one for one in view.bodies[f"NODE#{meta['cluster']}#{meta['node']}"] if _sequence(one) < _sequence(intent)
    ]
    of_case = [one["data"] for one in before if one["metadata"]["case_id"] == meta["case_id"]]
    if any(one.get("facts", {}).get("order") == "approved" for one in of_case):
        return True
    rule = view.system.policy.rule_named(data["facts"]["rule"])
    fatal = any(one.get("severity") == "fatal" for one in of_case)
    return rule.release_without_capacity and (fatal or _never_served(before))


def _never_served(entries: list[Body]) -> bool:
    return not any(one["data"].get("to") in {"healthy", "degraded"} for one in entries)


def _sequence(body: Body) -> int:
    return int(body["metadata"]["sequence"])


def _place(body: Body) -> str:
    return f"{body['metadata']['stream']} {body['metadata']['sequence']}"


INVARIANTS = (Invariant("no instance is given up without the capacity that its rule demands", _without_capacity),)
