"""Launches successors for groups that launch no instances themselves.

Normally the successor is launched before the old instance is released.

Each launch has an idempotency token. A token launches at most one instance, however often it is used. A new token is
used only after an answer that proves that nothing was launched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from faultbridge.decode.frames.instance_type import with_same_gpu_count
from faultbridge.model import names
from faultbridge.model.cases import Phase
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.cluster.state import SPARE, Spare, SpareStatus, is_taken
from faultbridge.model.entries import Transition
from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Alias, AliasRow, Incarnation, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Absent, AnyOf, Condition, Equals, Item, Key, Put, Update, Write
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, LaunchedInstance, Launcher, LaunchRequest
from faultbridge.record.queries import cluster_control
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.attempt.step_context import Change, StepContext, StepTools, move_node, update_attempt
from faultbridge.repair.spares.pool import SparePool, read_spares

# The claim: reserves an instance as the successor of one node, so that it backs at most one node.
#
# One transaction commits the claim, the node's new names and its new generation. The generation counts the instances of
# a node.

MAX_FORMER_INSTANCES = 8


class InstanceTaken(Exception):  # noqa: N818 - an expected situation, not an error
    """Raised if an instance already backs another node or is claimed for another case."""


def claim(context: StepContext, candidate: LaunchedInstance) -> Change:
    """Return the change that attaches an instance as the successor; it raises InstanceTaken."""

    def revise(state: NodeState, now: datetime) -> Transition:
        aliases = {keys.alias(*alias): alias for alias in _aliases_of(state, candidate)}
        former = state.instance_id
        ended = _aliases_of_former(state, former, aliases)
        found = context.tools.table.get_many([keys.claim(candidate.instance_id), *aliases, *ended])
        if _is_taken(context, found, candidate.instance_id):
            raise InstanceTaken(f"{candidate.instance_id} backs another node")
        free = {key: alias for key, alias in aliases.items() if not belongs_to_other(found.get(key), state)}
        writes: tuple[Write, ...] = (
            _claim_write(context, candidate, now),
            _roster_write(state, candidate),
            *(_alias_write(alias, found.get(key), state, candidate, now) for key, alias in free.items()),
            *_end_aliases(state, former, ended, found, now),
        )
        return _attach(context, state, candidate, now, writes)

    return revise


def _attach(
    context: StepContext,
    state: NodeState,
    candidate: LaunchedInstance,
    now: datetime,
    writes: tuple[Write, ...],
) -> Transition:
    old = state.incarnation
    hosts, before = candidate.host_names, state.placement
    is_host = names.is_host_name(state.key.node, hosts)
    leaving = (old.instance_id,) if old and old.instance_id else ()
    since = _backs_since(context, candidate)
    state = replace(
        update_attempt(state, successor=candidate.instance_id),
        incarnation=Incarnation((old.instance if old else 0) + 1, 1, candidate.instance_id, None, since),
        former_instances=(*state.former_instances, *leaving)[-MAX_FORMER_INSTANCES:],
        placement=replace(
            before,
            instance_type=candidate.instance_type or before.instance_type,
            host_names=tuple(name for name in hosts if name != state.key.node),
            named_after=candidate.instance_id if is_host else before.named_after,
        ),
        devices=(),
        unverified=False,
    )
    facts: dict[str, object] = {"launched_at": to_text(candidate.launched_at), "instance_type": candidate.instance_type}
    facts |= {"spare": True} if candidate.instance_id == context.attempt.spare else {}
    step = context.entry(
        "claimed", now, old_instance=next(iter(leaving), None), new_instance=candidate.instance_id, facts=facts
    )
    state, draft = move_node(state, NodeStatus.VALIDATING, now, "successor claimed, generation raised")
    return Transition(state, (step, draft), writes)


def _backs_since(context: StepContext, candidate: LaunchedInstance) -> datetime:
    """Return the time from which an instance counts as the one that backs the node.

    Normally, this is the launch of the instance or the release of the old instance, whichever is later. For a spare,
    which was launched long before, it is the start of the step that claims the spare. The start of the step is also
    used if the recorded action is a restart by an earlier attempt, and no release.
    """
    attempt = context.attempt
    acted_at = context.case.marks.get(Phase.ACTED.value, candidate.launched_at)
    # Then the time is that of a restart in an earlier attempt, not that of the release.
    is_of_restart = attempt.intent is not None and acted_at < attempt.intent.at
    # A spare was launched long before: what happened to the node until this step belongs to the old instance.
    until_step = is_of_restart or candidate.instance_id == attempt.spare
    # Launch times are whole seconds: one may seem to precede the release of the old instance.
    return max(candidate.launched_at, acted_at, (attempt.since if until_step else None) or acted_at)


def _aliases_of(state: NodeState, candidate: LaunchedInstance) -> Iterator[Alias]:
    yield Alias("instance", candidate.instance_id)
    for name in candidate.host_names:
        if name != state.key.node:
            yield Alias("name", f"{state.key.cluster}/{name}")


def _aliases_of_former(state: NodeState, former: str | None, new: Mapping[Key, Alias]) -> dict[Key, Alias]:
    named = (Alias("name", f"{state.key.cluster}/{name}") for name in state.placement.host_names)
    ended = {keys.alias(*alias): alias for alias in (*([Alias("instance", former)] if former else []), *named)}
    return {key: alias for key, alias in ended.items() if key not in new}


def _is_taken(context: StepContext, found: dict[Key, Item], instance_id: str) -> bool:
    claimed = found.get(keys.claim(instance_id))
    if claimed is not None and claimed["case"] != context.request.case:
        return True
    return belongs_to_other(found.get(keys.alias("instance", instance_id)), context.state)


def belongs_to_other(found: Item | None, state: NodeState) -> bool:
    """Return whether a table row is the current alias of another node; False if `found` is None."""
    if found is None:
        return False
    row = items.read_alias(found)
    return row.valid_to is None and row.key != state.key


def _claim_write(context: StepContext, candidate: LaunchedInstance, now: datetime) -> Put:
    key, case = context.state.key, context.case
    holder: Item = {"cluster": key.cluster, "node": key.node, "case": case.id, "attempt": case.attempts}
    return Put(
        items.item(keys.claim(candidate.instance_id), now, holder),
        when=AnyOf((Absent(), Equals("case", case.id))),
    )


def _alias_write(alias: Alias, found: Item | None, state: NodeState, candidate: LaunchedInstance, now: datetime) -> Put:
    row = AliasRow(state.key, candidate.instance_id, candidate.launched_at)
    unchanged: Condition = Absent() if found is None else Equals("valid_from", str(found["valid_from"]))
    return Put(items.alias_item(alias, row, now), when=unchanged)


def _end_aliases(
    state: NodeState, former: str | None, ended: Mapping[Key, Alias], found: Mapping[Key, Item], now: datetime
) -> Iterator[Put]:
    for key, alias in ended.items():
        stored = found.get(key)
        if stored is not None and items.read_alias(stored).key == state.key:
            item = items.ended_alias_item(alias, items.read_alias(stored), former, now)
            yield Put(item, when=Equals("valid_from", str(stored["valid_from"])))


def _roster_write(state: NodeState, candidate: LaunchedInstance) -> Update:
    generation = (state.incarnation.instance if state.incarnation else 0) + 1
    key = keys.roster(state.key.cluster, state.shard, state.key.node)
    return Update(key, set={("generation",): generation, ("instance",): candidate.instance_id})


RESERVATIONS = frozenset(
    {CapacitySource.OWN_RESERVATION, CapacitySource.OPEN_RESERVATION, CapacitySource.CAPACITY_BLOCK}
)
"""Sources that have capacity only for the type of the old instance."""

SAME_TOKEN = frozenset({ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT, ProviderFailure.THROTTLED})
"""After these failures the token may be in use, or was never checked: the next launch reuses it."""


def ensure_successor(context: StepContext) -> CallResult | None:
    """Launch a successor if none exists; return why the old instance must stay, or None."""
    launcher, group = context.launcher, context.state.placement.group
    if launcher is None or group is None:
        return None
    wanted = launch_request(context, group)
    found = free_launches(context, launcher, wanted)
    if any(candidate.running for candidate in found):
        return tag_spare(context, launcher, found)
    if found:
        return CallResult(ProviderFailure.TIMEOUT, f"successor {found[0].instance_id} is not running yet")
    answer = launcher.launch(wanted)
    if answer.ok:
        return CallResult(ProviderFailure.TIMEOUT, f"the successor is not running yet ({answer.operation})")
    context.log("successor_launch_failed", answer.reason, failure=answer.failure)
    if answer.failure is ProviderFailure.THROTTLED:
        # A refusal would end the attempt, and the next attempt has another token.
        return replace(answer, failure=ProviderFailure.TIMEOUT)
    # NOT_FOUND means the launch template here; it must not be read as an old instance that is already gone.
    template_missing = answer.failure is ProviderFailure.NOT_FOUND
    return replace(answer, failure=ProviderFailure.PROVIDER_ERROR) if template_missing else answer


def free_launches(context: StepContext, launcher: Launcher, request: LaunchRequest) -> tuple[LaunchedInstance, ...]:
    """Return the live instances of the case that back no other node, such as one added by an operator."""
    launched = case_launches(launcher, request)
    aliases = {one.instance_id: keys.alias("instance", one.instance_id) for one in launched}
    found = context.tools.table.get_many(aliases.values())
    return tuple(one for one in launched if not belongs_to_other(found.get(aliases[one.instance_id]), context.state))


def case_launches(launcher: Launcher, request: LaunchRequest) -> tuple[LaunchedInstance, ...]:
    """Return the live instances of the case, without a recorded spare whose tag names another case."""
    return tuple(one for one in launcher.launched(request) if not is_taken(one.case, request.case))


def tag_spare(context: StepContext, launcher: Launcher, found: Sequence[LaunchedInstance]) -> CallResult | None:
    """Tag the spare of the attempt with its case, if `found` contains this spare and it lacks the tag.

    Returns why the spare could not be tagged, or None. Until it is tagged, the old instance must not be released, and
    the spare must not be claimed.
    """
    spare, case = context.attempt.spare, context.case.id
    if not any(one.instance_id == spare and one.case != case for one in found):
        return None
    answer = launcher.assign(str(spare), case)
    return None if answer.ok else replace(answer, failure=ProviderFailure.TIMEOUT)


def taken_spare(context: StepContext, fits: Callable[[str], bool]) -> str | None:
    """Return the id of the spare that an earlier call took for the case, or None.

    If `fits` returns False for this spare, the spare goes back to the pool, and the result is None. Spares that back or
    backed the node are ignored. The spare that the attempt has recorded is ignored too: `free_launches` finds it. So is
    a spare whose tag at the provider names another case, because it may serve another node.
    """
    pool, cluster = SparePool(context.tools.table, context.tools.clock), context.state.key.cluster
    used = {context.instance_id, context.attempt.spare, *context.state.former_instances}
    taken = pool.taken_by(cluster, context.case.id, used)
    if taken is None or context.launcher is None or not _is_unused(context, context.launcher, taken):
        return None
    if not fits(taken):
        pool.give_back(cluster, taken, context.launcher)
        return None
    return taken


def take_spare(context: StepContext, group: str, fits: Callable[[str], bool]) -> str | None:
    """Take a verified spare from the cluster's pool for the case, and return its instance id.

    `fits` gets the instance id of a spare, and returns whether it fits. The result is None if no spare fits. A spare
    does not fit if its tag at the provider names another case.
    """
    pool, instance_type = SparePool(context.tools.table, context.tools.clock), context.state.placement.instance_type
    launcher = context.launcher
    return pool.take(
        context.state.key.cluster,
        group,
        context.case.id,
        instance_type,
        lambda one: launcher is not None and _is_unused(context, launcher, one) and fits(one),
    )


def _is_unused(context: StepContext, launcher: Launcher, spare: str) -> bool:
    request = replace(case_request(context, context.state.placement.group or ""), spare=spare)
    return any(one.instance_id == spare for one in case_launches(launcher, request))


def launch_request(context: StepContext, group: str) -> LaunchRequest:
    """Return the launch request; a repeated token keeps the instance types stored with the attempt.

    Raises Misconfigured if no configured type has the node's number of GPUs.
    """
    types = context.attempt.instance_types or types_to_launch(context)
    return replace(case_request(context, group), instance_types=types)


def types_to_launch(context: StepContext, used: CapacitySource | None = None) -> tuple[str, ...]:
    """Return the instance types to launch, in order of preference.

    Configured types with another number of GPUs than the node are ignored. The result is empty if no types are
    configured; the launch template then decides. `used` is the source of capacity that permitted the release, or None.
    The types of this source come first; a reservation has only the type of the old instance. The types of `on_demand`
    and `fallback_types` follow in the policy's order, if the policy lists these sources. Without any of these types,
    the result is the first configured type.
    """
    types = _types(context)
    if not types:
        return ()
    launched = {CapacitySource.ON_DEMAND: types[:1], CapacitySource.FALLBACK_TYPES: types[1:]}
    old = context.state.placement.instance_type or types[0]
    first = (old,) if used in RESERVATIONS else launched.get(used, ()) if used else ()
    further = (one for source in context.rules.policy.capacity for one in launched.get(source, ()))
    chosen = tuple(dict.fromkeys((*first, *further)))
    return chosen or types[:1]


def source_of_type(context: StepContext, instance_type: str | None) -> CapacitySource:
    """Return the source in the policy's list that an instance of this type was launched from."""
    further = instance_type in fallback_types(context)
    sources = {CapacitySource.FALLBACK_TYPES} if further else {CapacitySource.ON_DEMAND, *RESERVATIONS}
    named = (source for source in context.rules.policy.capacity if source in sources)
    return next(named, CapacitySource.FALLBACK_TYPES if further else CapacitySource.ON_DEMAND)


def fallback_types(context: StepContext) -> tuple[str, ...]:
    """Return the configured instance types with as many GPUs as the node's type, except the first of them."""
    return _types(context)[1:]


def _types(context: StepContext) -> tuple[str, ...]:
    config, placement = context.rules.config, context.state.placement
    types = with_same_gpu_count(config.instance_types, placement.instance_type)
    if config.instance_types and not types:
        configured = ", ".join(config.instance_types)
        raise Misconfigured(f"no configured instance type has as many GPUs as {placement.instance_type}: {configured}")
    return types


def case_request(context: StepContext, group: str) -> LaunchRequest:
    """Return the request that identifies the launches of the case, without instance types.

    It contains the case and its current launch token, which is stored with the attempt. If the execution is lost, the
    next one repeats an unfinished launch with the same token.
    """
    intent, attempt = context.attempt.intent, context.attempt
    token = f"{intent.token if intent else attempt.launch_token or context.case.execution}-{attempt.launches}"
    return LaunchRequest(context.rules.config, group, context.case.id, token, context.instance_id, spare=attempt.spare)


def end_launches_of_case(context: StepContext) -> None:
    """Terminate the unused launches of a closing case; without an answer, the sweep does it later."""
    launcher, group = context.launcher, context.state.placement.group
    if launcher is None or group is None:
        return
    try:
        launched = case_launches(launcher, case_request(context, group))
        _end(context.tools, launcher, context.state.key.cluster, launched)
    except Transient as error:
        # The node is verified, so the case closes anyway; `end_unused_launches` repeats the termination.
        context.log("unused_launch_left", str(error))


def end_unused_launches(tools: StepTools, cluster: str) -> None:
    """Terminate the launched instances that never backed a node and that no live case or spare uses.

    A call reads the case of each launched instance. To limit these reads, a call does nothing outside the first minute
    of an hour. It also does nothing for a cluster that Faultbridge does not repair, or whose repairs are paused: after
    a restore, an instance may serve a node although the table says otherwise.
    """
    config = rules_of(tools.rulebook, cluster).config
    launcher = tools.compute(config).launchers.get(config.provider)
    if launcher is None or not config.repairs or tools.clock.now().minute:
        return
    if cluster_control(tools.table, cluster).paused:
        return
    launched = launcher.launched_in(config)
    # An instance is claimed only while its case is live: after the case was read as closed, no claim can follow.
    cases = tools.table.get_many(keys.case(one.case) for one in launched if one.case)
    ended = {key for key, case in cases.items() if not CaseStatus(str(case["status"])).live}
    of_cases = [one for one in launched if one.case and keys.case(one.case) in ended]
    of_spares = _given_up(launched, read_spares(tools.table, cluster))
    _end(tools, launcher, cluster, [*of_cases, *of_spares])


def _given_up(launched: Iterable[LaunchedInstance], pool: Iterable[Spare]) -> list[LaunchedInstance]:
    """Return the instances with the tag of a spare that the pool neither has nor still launches.

    The pool gets an instance only while the spare of its tag is launching, and a taken spare becomes empty only after
    the claim. `_end` reads the claims after the pool was read, and therefore keeps an instance that backs a node.
    """
    kept = {spare.owner if spare.status is SpareStatus.LAUNCHING else spare.instance_id for spare in pool}
    tagged = [one for one in launched if one.case and one.case.startswith(SPARE)]
    return [one for one in tagged if one.case not in kept and one.instance_id not in kept]


def _end(tools: StepTools, launcher: Launcher, cluster: str, launched: Iterable[LaunchedInstance]) -> None:
    launched = tuple(launched)
    claims = {keys.claim(one.instance_id): one.instance_id for one in launched}
    aliases = {keys.alias("instance", one.instance_id): one.instance_id for one in launched}  # of registered nodes
    used = {(claims | aliases)[key] for key in tools.table.get_many([*claims, *aliases])}
    unused = [one for one in launched if one.instance_id not in used]
    pooled = {spare.instance_id for spare in read_spares(tools.table, cluster)} if unused else set()
    for one in unused:
        if one.instance_id not in pooled:
            reason = "the instance never backed a node, and its case is closed or its spare has ended"
            ids = {"cluster": cluster, "instance_id": one.instance_id, "case_id": one.case}
            log_cause("unused_launch_terminated", reason=reason, level=logging.WARNING, **ids)
            launcher.terminate(one.instance_id)
