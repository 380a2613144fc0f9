"""Launch of successors for groups that do not launch them, before the old instance is released.

Each launch has a token. A token launches at most one instance, however often it is used. A new token is used only
after an answer that proves that nothing was launched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from faultbridge.decoders.common.gpu_count import with_same_gpu_count
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.capacity_sources import CapacitySource
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Misconfigured, Transient
from faultbridge.ports import CallResult, LaunchedInstance, Launcher, LaunchRequest, ProviderFailure
from faultbridge.repair.attempt.progress import live_attempt, update_attempt
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.spares.pool import SparePool

SAME_TOKEN = frozenset({ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT, ProviderFailure.THROTTLED})
"""After these failures the token may be in use, or was never checked: the next launch reuses it."""


def ensure_successor(context: StepContext) -> CallResult | None:
    """Launch a successor if needed. Return why the old instance must stay, or None if it may be released."""
    launcher, group = context.launcher, context.state.placement.group
    if launcher is None or group is None:
        return None
    wanted = launch_request(context, group)
    found = launcher.launched(wanted)
    if any(candidate.running for candidate in found):
        return _tag_spare(context, launcher, found)
    if found:
        return CallResult(ProviderFailure.TIMEOUT, f"successor {found[0].instance_id} is not running yet")
    answer = launcher.launch(wanted)
    if answer.ok:
        return CallResult(ProviderFailure.TIMEOUT, f"the successor is not running yet ({answer.operation})")
    context.log("successor_launch_failed", answer.reason, failure=answer.failure)
    # NOT_FOUND means the launch template here; it must not be read as an old instance that is already gone.
    template_missing = answer.failure is ProviderFailure.NOT_FOUND
    return replace(answer, failure=ProviderFailure.PROVIDER_ERROR) if template_missing else answer


def _tag_spare(context: StepContext, launcher: Launcher, found: Sequence[LaunchedInstance]) -> CallResult | None:
    """Tag a spare with its case before the old instance is released for it."""
    spare = context.attempt.spare
    if spare is None or spare not in {candidate.instance_id for candidate in found}:
        return None
    answer = launcher.assign(spare, context.case.id)
    return None if answer.ok else replace(answer, failure=ProviderFailure.TIMEOUT)


def take_spare(context: StepContext, group: str, fits: Callable[[str], bool]) -> str | None:
    """Take a verified spare that fits from the cluster's pool for the case. Returns its instance id, or None.

    A spare that an earlier attempt took and that does not fit is given back.
    """
    if context.launcher is None:
        return None
    pool, placement = SparePool(context.tools.table, context.tools.clock), context.state.placement
    used = {context.instance_id, *context.state.former_instances}
    taken = pool.taken_by(context.state.key.cluster, context.case.id, used)
    if taken is not None and not fits(taken):
        pool.give_back(context.state.key.cluster, taken)
        taken = None
    if taken is not None or context.launcher.launched(launch_request(context, group)):
        return taken  # an earlier attempt may have launched a successor already
    return pool.take(context.state.key.cluster, group, context.case.id, placement.instance_type, fits)


def check_launchable(context: StepContext) -> None:
    """Raise Misconfigured, before anything is released, if no successor could be launched."""
    if context.launcher is not None and context.state.placement.group is not None:
        launch_request(context, context.state.placement.group)


def launch_again(context: StepContext) -> str:
    """Launch a successor unless one is on its way. Returns why the launch failed, or ''."""
    launcher, group = context.launcher, context.state.placement.group
    if launcher is None or group is None or launcher.launched(launch_request(context, group)):
        return ""
    try:
        answer = launcher.launch(launch_request(context, group))
    except Transient as error:
        context.log("successor_launch_failed", str(error))
        return str(error)
    if not answer.ok:
        context.log("successor_launch_failed", answer.reason, failure=answer.failure)
    if not answer.ok and answer.failure not in SAME_TOKEN:
        context.commit(_use_next_token)
    return answer.reason


def launch_request(context: StepContext, group: str) -> LaunchRequest:
    """Describe the successor to launch: group, case, token, and instance types with enough GPUs.

    The policy decides whether the first type, the further ones, or both are launched, and which of them come first.
    """
    types = _types(context)
    by_source = {CapacitySource.ON_DEMAND: types[:1], CapacitySource.FALLBACK_TYPES: types[1:]}
    chosen = tuple(one for source in context.rules.policy.capacity for one in by_source.get(source, ()))
    return replace(case_request(context, group), instance_types=chosen or types[:1])


def fallback_types(context: StepContext) -> tuple[str, ...]:
    """Return the configured instance types with enough GPUs after the first one."""
    return _types(context)[1:]


def _types(context: StepContext) -> tuple[str, ...]:
    config, placement = context.rules.config, context.state.placement
    types = with_same_gpu_count(config.instance_types, placement.instance_type)
    if config.instance_types and not types:
        configured = ", ".join(config.instance_types)
        raise Misconfigured(f"no configured instance type has as many GPUs as {placement.instance_type}: {configured}")
    return types


def case_request(context: StepContext, group: str) -> LaunchRequest:
    """Return the request that identifies the launches of the case and their current token, without instance types."""
    intent, attempt = context.attempt.intent, context.attempt
    token = f"{intent.token if intent else context.case.execution}-{attempt.launches}"
    return LaunchRequest(context.rules.config, group, context.case.id, token, context.instance_id, spare=attempt.spare)


def _use_next_token(state: NodeState, now: datetime) -> Transition:  # noqa: ARG001 - the signature of a change
    _, attempt = live_attempt(state)
    return Transition(update_attempt(state, launches=attempt.launches + 1))
