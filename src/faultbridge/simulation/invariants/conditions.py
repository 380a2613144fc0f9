"""Conditions: the same as if the same records had come once each, in order, with nothing going wrong."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from faultbridge import data
from faultbridge.data.policies import default_policy
from faultbridge.decoders import registry
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.faults import Fault, Observation, Snapshot
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.domain.records import Outcome
from faultbridge.errors import Rejected
from faultbridge.ingest.outcomes import OUTCOME
from faultbridge.ingest.record_reader import Delivery, RecordPart, RecordReader
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.fold.write_filter import SURVEY_KEPT
from faultbridge.pipeline.observe import observe, tick
from faultbridge.simulation.invariants.base import Invariant
from faultbridge.simulation.view import View

WATCHED = "watch-b"


def _unlike(view: View) -> Iterator[str]:
    """Compare the cluster that nobody repairs: elsewhere a repair ends conditions, and when it does so is chance."""
    parts = _delivered(view)
    doubtful = _settled_as(view, Outcome.REJECTED) | _old_snapshots(view, parts)
    for state in view.nodes:
        mine = [part for part in parts if part.record.node == state.key.node]
        if state.key.cluster != WATCHED or any(part.record.record_id in doubtful for part in mine) or _tied(mine):
            continue
        now = view.ports.clock.now()
        true = _replayed(state, mine, now)
        found = {key: _asserting(state, key) for key, one in state.conditions.items() if one.active}
        left_out: set[str] = set()
        for untold in (_overtaken_faults, _unstored_looks):
            if found != true and (records := untold(view, mine)):
                left_out |= records
                true = _replayed(state, [part for part in mine if part.record.record_id not in left_out], now)
        if found != true:
            yield f"{state.key.stream} has {sorted(found)}, in order it would have {sorted(true)}"


def _asserting(state: NodeState, key: str) -> list[str]:
    return sorted(source for source, reporter in state.conditions[key].reporters.items() if reporter.active)


def _settled_as(view: View, outcome: Outcome) -> set[str]:
    """Name the records that came to an outcome at any of their deliveries.

    A record is rejected when its worker died three times over it; whether it had its effect before is chance.
    """
    lines = (line["records"] for _, line in view.ports.receipts.lines if line["kind"] == OUTCOME)
    return {record for line in lines for record, found in line.items() if found == outcome}


def _old_snapshots(view: View, parts: list[RecordPart]) -> set[str]:
    """Name the health snapshots that came after a newer one of their source: such a one says nothing, whatever it covered."""
    effective = _settled_as(view, Outcome.CLEAN) | _effective(view)
    snapshots = {part.record.record_id for part in parts if any(isinstance(one, Snapshot) for one in part.observations)}
    return (snapshots & _settled_as(view, Outcome.STALE)) - effective


def _effective(view: View) -> set[str]:
    return _settled_as(view, Outcome.RECORDED) | _settled_as(view, Outcome.FOLDED)


def _overtaken_faults(view: View, parts: list[RecordPart]) -> set[str]:
    """Name the stale faults that are older than a look of another source which covered them: such a one opens nothing.

    In order it would have stood when that look came, which withdraws no word but its own source's.
    """
    canonical = data.load_catalog().canonical
    looks = [
        (part.record.source, _at(part, one), {canonical(code) for code in one.covers})
        for part in parts
        for one in part.observations
        if isinstance(one, Snapshot)
    ]
    stale = _settled_as(view, Outcome.STALE) - _effective(view)
    return {
        part.record.record_id
        for part in parts
        for one in part.observations
        if isinstance(one, Fault) and part.record.record_id in stale
        for source, at, covered in looks
        if source != part.record.source and _at(part, one) <= at and canonical(one.code) in covered
    }


def _unstored_looks(view: View, parts: list[RecordPart]) -> set[str]:
    """Name the looks that changed nothing and are shortly after an older one that found something.

    Had that one come first, they would have ended what it opened: it came behind them. They are not worth a write
    (stages/worth), and whether a worker still knew of them is chance; the next look clears what the older one opened.
    """
    looks = [
        (part.record.record_id, one.looker, _at(part, one), bool(one.present))
        for part in parts
        for one in part.observations
        if isinstance(one, Snapshot)
    ]
    unstored = _settled_as(view, Outcome.CLEAN) - _effective(view)
    return {
        record
        for record, looker, at, present in looks
        if record in unstored and not present
        for _, other, before, found in looks
        if other == looker and found and at - SURVEY_KEPT <= before < at
    }


def _tied(parts: list[RecordPart]) -> bool:
    """Tell whether a look and something else are of one millisecond: which of them was later nobody can say."""
    looks: set[datetime] = set()
    said: dict[datetime, set[tuple[str, bytes]]] = {}
    for part in parts:
        for one in part.observations:
            said.setdefault(_at(part, one), set()).add((part.record.source, part.record.body))
            looks |= {_at(part, one)} if isinstance(one, Snapshot) else set()
    return any(len(said[at]) > 1 for at in looks)


def _at(part: RecordPart, one: Observation) -> datetime:
    return one.observed_at or part.record.sent_at


def _delivered(view: View) -> list[RecordPart]:
    """Read again every message that can be read, once each."""
    reader = RecordReader(view.ports.objects, registry.decode)
    found: dict[str, RecordPart] = {}
    for text, at in view.scene.queue.taken.values():
        try:
            read = reader.read(Delivery("again", text, at))
        except Rejected:
            continue
        for part in read:
            found.setdefault(part.record.record_id, part)
    return list(found.values())


def _replayed(state: NodeState, parts: list[RecordPart], end: datetime) -> dict[str, list[str]]:
    policy, catalog = default_policy(), data.load_catalog()
    rules = Rules(policy, ClusterConfig(WATCHED), catalog.version, "replay")
    node = NodeState(NodeKey(*state.key), status=state.status, incarnation=state.incarnation)
    arrivals = [Arrival(one, _at(part, one), part.record.record_id) for part in parts for one in part.observations]
    for arrival in sorted(arrivals, key=lambda one: one.at):
        node = tick(node, rules=rules, now=arrival.at).state
        node = observe(node, [arrival], rebooted=False, rules=rules, catalog=catalog, now=arrival.at).state
    node = tick(node, rules=rules, now=end).state
    return {key: _asserting(node, key) for key, one in node.conditions.items() if one.active}


INVARIANTS = (Invariant("what is wrong with a node does not depend on how its records came", _unlike),)
