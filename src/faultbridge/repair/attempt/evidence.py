"""Evidence: the raw report behind an outcome, a part of it in the entry and the whole of it in the bucket."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.errors import FaultbridgeError
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Bundle, BundleState, ObjectStore
from faultbridge.repair.attempt.contract import Answer, Outcome
from faultbridge.repair.attempt.progress import live, with_attempt
from faultbridge.repair.attempt.step_context import Work, waiting
from faultbridge.storage.wire.message import raw_key

INLINE = 4096


def keep(objects: ObjectStore, key: NodeKey, report: bytes, now: datetime) -> tuple[str, dict[str, Any]]:
    """Return what of a report goes into the entry, and where the whole is kept if it is longer than 4 KB."""
    if len(report) <= INLINE:
        return report.decode(errors="replace"), {}
    place = raw_key(key.cluster, now, report)
    objects.put(place, report)
    return report[:INLINE].decode(errors="ignore"), {"report": place}


NAME = "collect"
DEADLINE = timedelta(minutes=5)
OUTCOMES = {BundleState.KEPT: "kept", BundleState.FAILED: "failed", BundleState.RUNNING: "timed_out"}


def collecting(work: Work) -> Answer | None:
    """Wait for the log bundle of an attempt, at most five minutes; None once it is kept, or is to be done without."""
    instance_id = work.instance_id
    if NAME in work.attempt.steps or instance_id is None:
        return None
    if work.attempt.bundle_since is None:
        work = work.commit(_begin)
    bundle = _look(work, instance_id)
    since = work.attempt.bundle_since
    late = since is None or work.tools.clock.now() >= since + DEADLINE
    if bundle.state is BundleState.RUNNING and not late:
        return waiting("the log bundle is being collected")
    work.commit(lambda state, now: _settled(state, now, bundle, instance_id))
    return None


def _look(work: Work, instance_id: str) -> Bundle:
    try:
        return work.tools.collector.collect(instance_id, work.case.execution)
    except FaultbridgeError as error:
        # The evidence is worth less than the repair that waits for it.
        return Bundle(BundleState.FAILED, reason=str(error))


def _begin(state: NodeState, now: datetime) -> Transition:
    return Transition(with_attempt(state, bundle_since=now))


def _settled(state: NodeState, now: datetime, bundle: Bundle, instance_id: str) -> Transition:
    case, attempt = live(state)
    if NAME in attempt.steps:
        return Transition(state)
    facts = {"bundle": bundle.place} if bundle.state is BundleState.KEPT else {}
    outcome = OUTCOMES[bundle.state]
    step = entry_builder.step(case, NAME, outcome, now, reason=bundle.reason, old_instance=instance_id, facts=facts)
    steps = {**attempt.steps, NAME: Outcome.DONE.value}
    return Transition(with_attempt(state, steps=steps), (step,))
