"""Conditions: the same as if the same records had come once each, in order, with nothing going wrong."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from faultbridge import data
from faultbridge.data.policies import default_policy
from faultbridge.decoders import registry
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.records import Outcome
from faultbridge.errors import Rejected
from faultbridge.pipeline import observe, tick
from faultbridge.services.account import OUTCOME
from faultbridge.services.records import Delivery, Part, Reader
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View
from faultbridge.stages.changes import Arrival
from faultbridge.stages.decide import Rules

WATCHED = "watch-b"


def _unlike(view: View) -> Iterator[str]:
    """Compare the cluster that nobody repairs: elsewhere a repair ends conditions, and when it does so is chance."""
    parts, doubtful = _delivered(view)
    for state in view.nodes:
        mine = [part for part in parts if part.record.node == state.key.node]
        if state.key.cluster != WATCHED or any(part.record.record_id in doubtful for part in mine):
            continue
        true = _replayed(state, mine, view.ports.clock.now())
        found = {key: _asserting(state, key) for key, one in state.conditions.items() if one.active}
        if found != true:
            yield f"{state.key.stream} has {sorted(found)}, in order it would have {sorted(true)}"


def _asserting(state: NodeState, key: str) -> list[str]:
    return sorted(source for source, witness in state.conditions[key].witnesses.items() if witness.active)


def _delivered(view: View) -> tuple[list[Part], set[str]]:
    """Read again every message that can be read, once each, and name those that were rejected all the same.

    A record is rejected when its worker died three times over it; whether it had its effect before is chance.
    """
    rejected = {
        record
        for _, line in view.ports.receipts.lines
        if line["kind"] == OUTCOME
        for record, outcome in line["records"].items()
        if outcome == Outcome.REJECTED
    }
    reader = Reader(view.ports.objects, registry.decode)
    found: dict[str, Part] = {}
    for text, at in view.scene.put_on_queue:
        try:
            read = reader.read(Delivery("again", text, at))
        except Rejected:
            continue
        for part in read:
            found.setdefault(part.record.record_id, part)
    return list(found.values()), rejected


def _replayed(state: NodeState, parts: list[Part], end: datetime) -> dict[str, list[str]]:
    policy, catalogue = default_policy(), data.catalogue()
    rules = Rules(policy, ClusterConfig(WATCHED), catalogue.version, "replay")
    node = NodeState(NodeKey(*state.key), status=state.status, incarnation=state.incarnation)
    arrivals = [
        Arrival(one, one.observed_at or part.record.sent_at, part.record.record_id)
        for part in parts
        for one in part.observations
    ]
    for arrival in sorted(arrivals, key=lambda one: one.at):
        node = tick(node, rules=rules, now=arrival.at).state
        node = observe(node, [arrival], rebooted=False, rules=rules, catalogue=catalogue, now=arrival.at).state
    node = tick(node, rules=rules, now=end).state
    return {key: _asserting(node, key) for key, one in node.conditions.items() if one.active}


INVARIANTS = (Invariant("what is wrong with a node does not depend on how its records came", _unlike),)
