"""Bundle: the logs of an instance are kept before anything is done to it; that they cannot be stops no repair."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.domain.nodes import NodeState
from faultbridge.errors import FaultbridgeError
from faultbridge.ports import Bundle, BundleState
from faultbridge.services.append import Revision
from faultbridge.services.replacement.outcomes import Answer, Outcome
from faultbridge.services.replacement.progress import live, with_attempt
from faultbridge.services.replacement.work import Work, waiting
from faultbridge.stages import narrate

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


def _begin(state: NodeState, now: datetime) -> Revision:
    return Revision(with_attempt(state, bundle_since=now))


def _settled(state: NodeState, now: datetime, bundle: Bundle, instance_id: str) -> Revision:
    case, attempt = live(state)
    if NAME in attempt.steps:
        return Revision(state)
    facts = {"bundle": bundle.place} if bundle.state is BundleState.KEPT else {}
    outcome = OUTCOMES[bundle.state]
    step = narrate.step(case, NAME, outcome, now, reason=bundle.reason, old_instance=instance_id, facts=facts)
    steps = {**attempt.steps, NAME: Outcome.DONE.value}
    return Revision(with_attempt(state, steps=steps), (step,))
