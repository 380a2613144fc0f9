"""Repairs: at most one at a time a node, and nothing is destroyed that was not named before."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.domain.spares import SpareStatus
from faultbridge.repair.spares.pool import Pool
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.scene import ACTING
from faultbridge.simulation.view import View


def _unintended(view: View) -> Iterator[str]:
    meant = {
        body["data"]["old_instance"]
        for entries in view.bodies.values()
        for body in entries
        if body["data"].get("step") == "intent" and body["data"]["repair_action"] == "replace"
    }
    gone = {one.instance_id for one in view.ports.fleet.instances.values() if not one.alive}
    yield from sorted(gone - meant - view.scene.taken - set(view.ports.launcher.ended))


def _attempts(view: View) -> Iterator[str]:
    for pk, entries in view.bodies.items():
        last: dict[str, int] = {}
        for body in entries:
            case, number = body["metadata"]["case_id"], body["data"].get("attempt")
            if number is None or case is None:
                continue
            if number < last.get(case, 0):
                yield f"{pk} {body['metadata']['sequence']}: attempt {number} after {last[case]}"
            last[case] = number


def _settled_twice(view: View) -> Iterator[str]:
    once = {
        ("intent", "committed"),
        ("release_instance", "released"),
        ("repair_in_place", "back"),
        ("await_successor", "claimed"),
        ("verify", "passed"),
    }
    for pk, entries in view.bodies.items():
        seen: set[tuple[object, ...]] = set()
        for body in entries:
            data = body["data"]
            if (data.get("step"), data.get("outcome")) not in once:
                continue
            mark = (body["metadata"]["case_id"], data["attempt"], data["step"], data["outcome"])
            if mark in seen:
                yield f"{pk} {body['metadata']['sequence']}: {mark}"
            seen.add(mark)


def _launched(view: View) -> Iterator[str]:
    seated = {state.incarnation.instance_id for state in view.nodes if state.incarnation}
    live = {state.live_case.id for state in view.nodes if state.live_case}
    places = Pool(view.ports.table, view.ports.clock).places(ACTING)
    seated |= {one.instance_id for one in places}
    waiting: set[str] = set()
    for one in view.ports.fleet.instances.values():
        if one.case is None or not one.alive or one.instance_id in seated:
            continue
        if one.case not in live or one.case in waiting:
            yield f"{one.instance_id} was launched for {one.case[-12:]} and sits nowhere"
        waiting.add(one.case)


def _claims(view: View) -> Iterator[str]:
    seated = {state.incarnation.instance_id for state in view.nodes if state.incarnation}
    former = {instance for state in view.nodes for instance in state.former_instances}
    for item in view.items:
        if item["sk"] == "CLAIM" and str(item["pk"]).removeprefix("INSTANCE#") not in seated | former:
            yield f"{item['pk']} is claimed for {item['node']} and sits nowhere"


def _spares(view: View) -> Iterator[str]:
    places = Pool(view.ports.table, view.ports.clock).places(ACTING)
    for one in places:
        if one.status is SpareStatus.READY and not view.ports.fleet.is_alive(str(one.instance_id)):
            yield f"place {one.number} is ready, and {one.instance_id} is gone"
    had = [one.instance_id for one in places if one.instance_id]
    if len(had) != len(set(had)):
        yield f"a machine is in two places: {sorted(had)}"
    wanted = view.scene.spares
    if sum(one.status in {SpareStatus.READY, SpareStatus.TAKEN} for one in places) != wanted:
        yield f"{wanted} spares are to wait: {[(one.number, one.status.value, one.reason) for one in places]}"


INVARIANTS = (
    Invariant("the pool has as many verified machines as were asked for, each once", _spares),
    Invariant("every machine that is gone was named by an intent, or taken away by a rival", _unintended),
    Invariant("attempts of a case only rise", _attempts),
    Invariant("a step of an attempt is settled once", _settled_twice),
    Invariant("a machine that was launched sits in a node, or one waits for a case that a person has", _launched),
    Invariant("a claimed machine sits in a node", _claims),
)
