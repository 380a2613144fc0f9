"""Checks repairs: approvals, intents, the repair budget, the spare pool, launches, and step results."""

from __future__ import annotations

from collections.abc import Iterator

from faultbridge.model.cluster.state import SpareStatus
from faultbridge.repair.spares.pool import SparePool
from tests.sim.invariants.arithmetic import repairs_over_budget, unapproved_repairs
from tests.sim.invariants.view import Invariant, SystemView
from tests.sim.simulated_system import REPAIRED


def _over_budget(view: SystemView) -> Iterator[str]:
    if view.system.workers.clocks_differed:
        return  # the times of the entries do not show their order; each commit of the slots is checked
    bodies = [body for entries in view.bodies.values() for body in entries if body["metadata"]["cluster"] == REPAIRED]
    # Of two entries in one millisecond, the one that frees a slot came first.
    bodies.sort(key=lambda body: (body["metadata"]["recorded_at"], body["data"].get("to") == "in_progress"))
    limits = view.system.checks.limits
    yield from repairs_over_budget(bodies, max(one.concurrent for one in limits), max(one.per_hour for one in limits))


def _unapproved(view: SystemView) -> Iterator[str]:
    if view.system.policy_changed:
        return  # which rules governed each repair is not recorded
    rules = view.system.policy.rules
    asking = [(rule.match.codes, frozenset(action.value for action in rule.approval)) for rule in rules]
    for state in view.nodes:
        if state.key.cluster == REPAIRED:
            yield from unapproved_repairs(view.entries_of(state), asking)


def _without_intent(view: SystemView) -> Iterator[str]:
    intended = {
        body["data"]["old_instance"]
        for entries in view.bodies.values()
        for body in entries
        if body["data"].get("step") == "intent" and body["data"]["repair_action"] == "replace_node"
    }
    terminated = {one.instance_id for one in view.ports.fleet.instances.values() if not one.alive}
    explained = intended | view.system.externally_terminated | set(view.ports.launcher.terminated)
    yield from sorted(terminated - explained)


def _decreasing_attempts(view: SystemView) -> Iterator[str]:
    for pk, entries in view.bodies.items():
        last: dict[str, int] = {}
        for body in entries:
            case, number = body["metadata"]["case_id"], body["data"].get("attempt")
            if number is None or case is None:
                continue
            if number < last.get(case, 0):
                yield f"{pk} {body['metadata']['sequence']}: attempt {number} after {last[case]}"
            last[case] = number


def _repeated_results(view: SystemView) -> Iterator[str]:
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
            result = (body["metadata"]["case_id"], data["attempt"], data["step"], data["outcome"])
            if result in seen:
                yield f"{pk} {body['metadata']['sequence']}: {result}"
            seen.add(result)


def _current_instances(view: SystemView) -> set[str | None]:
    return {state.incarnation.instance_id for state in view.nodes if state.incarnation}


def unused_launches(view: SystemView) -> Iterator[str]:
    """Yield a text for each live instance that was launched for a case or spare and has no use.

    An instance has no use if it backs no node and is no spare. For each live case, one such instance is left out,
    because the case may still use it.
    """
    live = {state.live_case.id for state in view.nodes if state.live_case}
    spares = SparePool(view.ports.table, view.ports.clock).spares(REPAIRED)
    used = _current_instances(view) | {one.instance_id for one in spares}
    waiting: set[str] = set()
    for one in view.ports.fleet.instances.values():
        if one.case is None or not one.alive or one.instance_id in used:
            continue
        if one.case not in live or one.case in waiting:
            yield f"{one.instance_id} was launched for {one.case[-12:]} and backs no node"
        waiting.add(one.case)


def _unused_claims(view: SystemView) -> Iterator[str]:
    former = {instance for state in view.nodes for instance in state.former_instances}
    known = _current_instances(view) | former
    for item in view.items:
        if item["sk"] == "CLAIM" and str(item["pk"]).removeprefix("INSTANCE#") not in known:
            yield f"{item['pk']} is claimed for {item['node']} and backs no node"


def _wrong_spares(view: SystemView) -> Iterator[str]:
    spares = SparePool(view.ports.table, view.ports.clock).spares(REPAIRED)
    for one in spares:
        if one.status is SpareStatus.READY and not view.ports.fleet.is_alive(str(one.instance_id)):
            yield f"spare {one.number} is ready, but {one.instance_id} is terminated"
    instances = [one.instance_id for one in spares if one.instance_id]
    if len(instances) != len(set(instances)):
        yield f"an instance is two spares: {sorted(instances)}"
    wanted = view.system.spares
    if sum(one.status in {SpareStatus.READY, SpareStatus.TAKEN} for one in spares) != wanted:
        yield f"{wanted} spares are configured: {[(one.number, one.status.value, one.reason) for one in spares]}"


INVARIANTS = (
    Invariant("a repair that requires approval starts only after an operator approved it", _unapproved),
    Invariant("repairs never exceed the largest budget that any policy allowed", _over_budget),
    Invariant("the pool has as many verified spares as configured, each instance once", _wrong_spares),
    Invariant("every terminated instance was named by an intent or terminated by others", _without_intent),
    Invariant("attempt numbers of a case only increase", _decreasing_attempts),
    Invariant("a step of an attempt has its result at most once", _repeated_results),
    Invariant("a launched instance backs a node, is a spare, or waits for an escalated case", unused_launches),
    Invariant("a claimed instance backs a node or did so before", _unused_claims),
)
