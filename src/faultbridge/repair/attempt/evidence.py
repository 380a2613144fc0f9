"""Evidence of an attempt: verification reports, and log bundles collected before an instance changes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.errors import FaultbridgeError
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Bundle, BundleState, ObjectStore
from faultbridge.repair.attempt.progress import live_attempt, update_attempt
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepOutcome, StepResult, waiting
from faultbridge.storage.wire.message import raw_key

MAX_INLINE_BYTES = 4096
NAME = "collect"
COLLECT_TIMEOUT = timedelta(minutes=5)
OUTCOMES = {BundleState.KEPT: "kept", BundleState.FAILED: "failed", BundleState.RUNNING: "timed_out"}


def store_report(objects: ObjectStore, key: NodeKey, report: bytes, now: datetime) -> tuple[str, dict[str, Any]]:
    """Return the first 4 KB of a verification report as text, and facts for the entry that records it.

    A longer report is stored as an object. The facts then contain its object key.
    """
    if len(report) <= MAX_INLINE_BYTES:
        return report.decode(errors="replace"), {}
    object_key = raw_key(key.cluster, now, report)
    objects.put(object_key, report)
    return report[:MAX_INLINE_BYTES].decode(errors="ignore"), {"report": object_key}


def collect_logs(context: StepContext) -> tuple[StepContext, StepResult | None]:
    """Start to collect the logs of the instance, or check whether they are collected.

    Returns two values: the context with the node as last written, and `waiting` while the logs are being collected. The
    second value is None if the attempt may continue: the logs are collected, the collection failed, or five minutes
    have passed.
    """
    instance_id = context.instance_id
    if NAME in context.attempt.steps or instance_id is None:
        return context, None
    if context.attempt.bundle_since is None:
        context = context.commit(_start_collecting)
    bundle = _read_bundle(context, instance_id)
    since = context.attempt.bundle_since
    timed_out = since is None or context.now >= since + COLLECT_TIMEOUT
    if bundle.state is BundleState.RUNNING and not timed_out:
        return context, waiting("the log bundle is being collected")
    if bundle.state is not BundleState.KEPT:
        context.log("log_bundle_skipped", bundle.reason or OUTCOMES[bundle.state], instance_id=instance_id)
    return context.commit(lambda state, now: _record_bundle(state, now, bundle, instance_id)), None


def _read_bundle(context: StepContext, instance_id: str) -> Bundle:
    try:
        return context.compute.collector.collect(instance_id, context.case.execution)
    except FaultbridgeError as error:
        # A missing log bundle must not stop the repair.
        return Bundle(BundleState.FAILED, reason=str(error))


def _start_collecting(state: NodeState, now: datetime) -> Transition:
    return Transition(update_attempt(state, bundle_since=now))


def _record_bundle(state: NodeState, now: datetime, bundle: Bundle, instance_id: str) -> Transition:
    case, attempt = live_attempt(state)
    if NAME in attempt.steps:
        return Transition(state)
    facts = {"bundle": bundle.place} if bundle.state is BundleState.KEPT else {}
    outcome = OUTCOMES[bundle.state]
    step = entry_builder.step(case, NAME, outcome, now, reason=bundle.reason, old_instance=instance_id, facts=facts)
    steps = {**attempt.steps, NAME: StepOutcome.DONE.value}
    return Transition(update_attempt(state, steps=steps), (step,))
