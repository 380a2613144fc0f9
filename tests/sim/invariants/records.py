"""Checks that each raw record has an outcome, and that conditions do not depend on delivery order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from faultbridge.decide.case_moves import Rules
from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.fold.write_filter import SNAPSHOT_PRECISION
from faultbridge.decide.observe import observe, tick
from faultbridge.decode import data, registry
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Fault, Observation, Snapshot
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.records import Outcome
from faultbridge.model.times import truncate
from faultbridge.serve.ingest.outcomes import OUTCOMES, outcomes_in
from faultbridge.serve.ingest.record_reader import Delivery, RecordPart, RecordReader
from faultbridge.serve.ingest.send import audit_deliveries
from tests.sim.invariants.view import Invariant, SystemView

WATCHED = "watch-b"


def _without_outcome(view: SystemView) -> Iterator[str]:
    yield from audit_deliveries(view.ports.receipts, datetime(2000, 1, 1, tzinfo=UTC)).missing


def _unknown_outcomes(view: SystemView) -> Iterator[str]:
    known = {outcome.value for outcome in Outcome}
    for _, line in view.ports.receipts.lines:
        if line["kind"] == OUTCOMES:
            yield from (f"{records}: {outcome}" for outcome, records in line["records"].items() if outcome not in known)


def _left_on_the_queue(view: SystemView) -> Iterator[str]:
    yield from (f"message {message.number}" for message in (*view.ports.queue.messages, *view.ports.queue.dead))


INVARIANTS = (
    Invariant("every record that was sent has an outcome", _without_outcome),
    Invariant("every outcome is a known one", _unknown_outcomes),
    Invariant("no message is left on the queue", _left_on_the_queue),
)


def _replay_differences(view: SystemView) -> Iterator[str]:
    """Compare the conditions of the nodes in the watched cluster with a replay of their records in order.

    - Only the watched cluster is compared. In other clusters, repairs end conditions at times that depend on chance.
    - A node is not compared if one of its records was rejected, if one is a snapshot that arrived after a newer
      snapshot, or if the order of its records is undefined.
    - If the conditions differ, the replay is repeated without the records whose effect depends on the delivery order by
      design. If the conditions still differ, this is a violation.
    """
    parts = delivered_parts(view)
    unclear = records_with_outcome(view, Outcome.REJECTED) | _stale_snapshots(view, parts)
    for state in view.nodes:
        mine = [part for part in parts if part.record.node == state.key.node and not is_forgotten(part)]
        if state.key.cluster != WATCHED or any(part.record.record_id in unclear for part in mine) or _has_ties(mine):
            continue
        now = view.ports.clock.now()
        replayed = _replayed(state, mine, now)
        found = {key: _asserting_sources(state, key) for key, one in state.conditions.items() if one.active}
        left_out: set[str] = set()
        for order_dependent in (_overtaken_faults, _unstored_snapshots):
            if found != replayed and (records := order_dependent(view, mine)):
                left_out |= records
                replayed = _replayed(state, [part for part in mine if part.record.record_id not in left_out], now)
        if found != replayed:
            yield f"{state.key.stream} has {sorted(found)}, the replay in order has {sorted(replayed)}"


def _asserting_sources(state: NodeState, key: str) -> list[str]:
    return sorted(state.conditions[key].sources)


def records_with_outcome(view: SystemView, outcome: Outcome) -> set[str]:
    """Return the ids of the records that had this outcome at any of their deliveries.

    A record with the outcome `rejected` may have taken effect before, because a record that stops its Lambda function
    three times is rejected too.
    """
    lines = (outcomes_in(line) for _, line in view.ports.receipts.lines)
    return {record for line in lines for record, found in line if found is outcome}


def _stale_snapshots(view: SystemView, parts: list[RecordPart]) -> set[str]:
    """Return the ids of health snapshots without effect, because a newer snapshot arrived before."""
    effective = records_with_outcome(view, Outcome.CLEAN) | _effective(view)
    snapshots = {part.record.record_id for part in parts if any(isinstance(one, Snapshot) for one in part.observations)}
    return (snapshots & records_with_outcome(view, Outcome.STALE)) - effective


def _effective(view: SystemView) -> set[str]:
    return records_with_outcome(view, Outcome.RECORDED) | records_with_outcome(view, Outcome.FOLDED)


def _overtaken_faults(view: SystemView, parts: list[RecordPart]) -> set[str]:
    """Return the ids of records whose fault opened no condition after a newer snapshot of another source.

    The snapshot covers the mode of the fault. The effect of such a record depends on the delivery order. If the fault
    arrives after the snapshot, it is stale, or becomes a note if its code is new. If the fault arrives first, it opens
    a condition, which the snapshot does not end, because another source reported the fault.
    """
    rows = data.load_catalog()
    snapshots = [
        (part.record.source, _time_of(part, one), {rows.row(code).mode for code in one.covers})
        for part in parts
        for one in part.observations
        if isinstance(one, Snapshot)
    ]
    entries = (body for bodies in view.bodies.values() for body in bodies)
    noted = {body["metadata"]["causation_id"] for body in entries if body["data"].get("kind") == "late_fault"}
    without_condition = (records_with_outcome(view, Outcome.STALE) - _effective(view)) | noted
    return {
        part.record.record_id
        for part in parts
        for one in part.observations
        if isinstance(one, Fault) and part.record.record_id in without_condition
        for source, at, covered in snapshots
        if source != part.record.source and _time_of(part, one) <= at and rows.row_of(one).mode in covered
    }


def _unstored_snapshots(view: SystemView, parts: list[RecordPart]) -> set[str]:
    """Return the ids of healthy snapshots that the table does not store and whose delivery order matters.

    A healthy snapshot contains no fault, and a faulty snapshot contains faults. The result has the healthy snapshots
    that are up to ten minutes newer than a faulty snapshot of the same reporter, and their duplicates. The order of a
    healthy and a faulty snapshot matters:

    - If the faulty snapshot arrives first, the healthy snapshot ends the conditions, as in a replay.
    - If the healthy snapshot arrives first, the faulty snapshot opens conditions, because the table does not store the
      healthy snapshot. Only a Lambda function with the healthy snapshot in its cache ignores the faulty snapshot.
    """
    snapshots = [
        (part.record.record_id, one.reporter_key, _time_of(part, one), bool(one.present))
        for part in parts
        for one in part.observations
        if isinstance(one, Snapshot)
    ]
    unstored = (records_with_outcome(view, Outcome.CLEAN) | records_with_outcome(view, Outcome.DUPLICATE)) - _effective(
        view
    )
    return {
        record
        for record, reporter, at, faulty in snapshots
        if record in unstored and not faulty
        for _, other, before, found in snapshots
        if other == reporter and found and at - SNAPSHOT_PRECISION <= before < at
    }


def _has_ties(parts: list[RecordPart]) -> bool:
    """Return whether a snapshot and a different record have the same time: their order is undefined."""
    snapshot_times: set[datetime] = set()
    by_time: dict[datetime, set[tuple[str, bytes]]] = {}
    for part in parts:
        for one in part.observations:
            by_time.setdefault(_time_of(part, one), set()).add((part.record.source, part.record.body))
            snapshot_times |= {_time_of(part, one)} if isinstance(one, Snapshot) else set()
    return any(len(by_time[at]) > 1 for at in snapshot_times)


def is_forgotten(part: RecordPart) -> bool:
    """Return whether a record was too old to take effect when it arrived.

    A record is too old if, for example, the sender's clock is years behind.
    """
    oldest = part.record.received_at - default_policy().limits.remember_for
    return any(_time_of(part, one) < oldest for one in part.observations)


def _time_of(part: RecordPart, one: Observation) -> datetime:
    return truncate(one.observed_at or part.record.sent_at)  # as ingest compares them: in whole milliseconds


def delivered_parts(view: SystemView) -> list[RecordPart]:
    """Return every record that the queue delivered, decoded, once."""
    reader = RecordReader(view.ports.objects, registry.read)
    found: dict[str, RecordPart] = {}
    for text, at in view.system.queue.received.values():
        for record in Delivery("again", text, at).records():
            try:
                read = reader.read(record)
            except Rejected:
                continue
            for part in read:
                found.setdefault(part.record.record_id, part)
    return list(found.values())


def _replayed(state: NodeState, parts: list[RecordPart], end: datetime) -> dict[str, list[str]]:
    """Apply the records of a node in the order of time, and return the conditions active at `end`.

    The result maps the key of each active condition to the sources that assert the condition.
    """
    policy, catalog = default_policy(), data.load_catalog()
    rules = Rules(policy, ClusterConfig(WATCHED), catalog, "replay")
    node = NodeState(NodeKey(*state.key), status=state.status, incarnation=state.incarnation)
    arrivals = [Arrival(one, _time_of(part, one), part.record.record_id) for part in parts for one in part.observations]
    for arrival in sorted(arrivals, key=lambda one: one.at):
        node = tick(node, rules=rules, now=arrival.at).state
        node = observe(node, [arrival], rules=rules, catalog=catalog, now=arrival.at).state
    node = tick(node, rules=rules, now=end).state
    return {key: _asserting_sources(node, key) for key, one in node.conditions.items() if one.active}


REPLAY_INVARIANTS = (
    Invariant("conditions do not depend on the order or repetition of deliveries", _replay_differences),
)
