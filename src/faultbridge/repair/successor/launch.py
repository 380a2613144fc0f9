"""Launch: where no group fills its nodes by itself, a successor runs before the old instance is given up.

A try has one token, and with one token at most one instance is launched, however often it is asked for. A new token
is taken only after an answer that says for sure that nothing was launched.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from faultbridge.decoders.common.gpu_count import with_same_gpu_count
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import CallResult, Candidate, Launcher, LaunchRequest, ProviderFailure
from faultbridge.repair.attempt.progress import live, with_attempt
from faultbridge.repair.attempt.step_context import Work
from faultbridge.repair.spares.pool import Pool, places_of
from faultbridge.storage import keys

SAME_TOKEN = frozenset({ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT, ProviderFailure.THROTTLED})
"""After these the token may be in use, or was never looked at."""


def still_missing(work: Work) -> CallResult | None:
    """Say why the old instance may not go yet; None where a successor runs, or comes from the group by itself."""
    launcher, group = work.launcher, work.state.placement.group
    if launcher is None or group is None:
        return None
    wanted = launch_request(work, group)
    found = launcher.launched(wanted)
    if any(one.running for one in found):
        return _marked(work, launcher, found)
    if found:
        return CallResult(ProviderFailure.TIMEOUT, f"{found[0].instance_id} does not run yet")
    answer = launcher.launch(wanted)
    if answer.ok:
        return CallResult(ProviderFailure.TIMEOUT, f"the successor does not run yet ({answer.operation})")
    # What is not found is the launch template: it says nothing of the instance that is to go.
    missing = answer.failure is ProviderFailure.NOT_FOUND
    return replace(answer, failure=ProviderFailure.PROVIDER_ERROR) if missing else answer


def _marked(work: Work, launcher: Launcher, found: Sequence[Candidate]) -> CallResult | None:
    """Let the machine say whose it is where it is a spare, before anything is given up for it."""
    spare = work.attempt.spare
    if spare is None or all(one.instance_id != spare for one in found):
        return None
    answer = launcher.assign(spare, work.case.id)
    return None if answer.ok else replace(answer, failure=ProviderFailure.TIMEOUT)


def spare_of(work: Work, group: str) -> str | None:
    """Take a verified machine out of the cluster's pool for the case; None where there is none."""
    if work.launcher is None or not work.rules.config.spares:
        return None
    pool, placement = Pool(work.tools.table, work.tools.clock), work.state.placement
    served = {work.instance_id, *work.state.former_instances}
    taken = pool.taken_by(work.state.key.cluster, work.case.id, served)
    if taken is not None or work.launcher.launched(launch_request(work, group)):
        return taken  # an attempt before this one may have launched a successor already
    return pool.take(work.state.key.cluster, group, work.case.id, placement.instance_type)


def end_what_is_left(work: Work) -> None:
    """End machines that were launched for the case and never had a node: a person mended the node instead."""
    launcher, group = work.launcher, work.state.placement.group
    if launcher is None or group is None:
        return
    pooled = {spare.instance_id for spare in places_of(work.tools.table, work.state.key.cluster)}
    with suppress(Transient):  # the node is good, whatever EC2 answers now; the tag tells of what is left
        for one in launcher.launched(_of_case(work, group)):
            claimed = work.tools.table.get(keys.claim(one.instance_id)) is not None
            if not claimed and one.instance_id not in pooled:
                launcher.terminate(one.instance_id)


def check(work: Work) -> None:
    """Raise Misconfigured where no successor could ever be launched, before anything is given up for it."""
    if work.launcher is not None and work.state.placement.group is not None:
        launch_request(work, work.state.placement.group)


def once_more(work: Work) -> str:
    """Launch a successor of an instance that is gone, where none is on its way; returns why there is none."""
    launcher, group = work.launcher, work.state.placement.group
    if launcher is None or group is None or launcher.launched(launch_request(work, group)):
        return ""
    try:
        answer = launcher.launch(launch_request(work, group))
    except Transient as error:
        return str(error)
    if not answer.ok and answer.failure not in SAME_TOKEN:
        work.commit(_next_token)
    return answer.reason


def launch_request(work: Work, group: str) -> LaunchRequest:
    """Describe the node that is to be filled again."""
    config, placement = work.rules.config, work.state.placement
    types = with_same_gpu_count(config.instance_types, placement.instance_type)
    if config.instance_types and not types:
        raise Misconfigured(f"none of {', '.join(config.instance_types)} has as many GPUs as {placement.instance_type}")
    return replace(_of_case(work, group), instance_types=types)


def _of_case(work: Work, group: str) -> LaunchRequest:
    intent, attempt = work.attempt.intent, work.attempt
    token = f"{intent.token if intent else work.case.execution}-{attempt.launches}"
    return LaunchRequest(work.rules.config, group, work.case.id, token, work.instance_id, spare=attempt.spare)


def _next_token(state: NodeState, now: datetime) -> Transition:  # noqa: ARG001 - a change of a node is told the time
    _, attempt = live(state)
    return Transition(with_attempt(state, launches=attempt.launches + 1))
