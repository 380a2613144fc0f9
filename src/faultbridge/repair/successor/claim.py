"""The claim: reserves an instance as the successor of one node, so that it backs at most one node.

One transaction commits the claim, the node's new names and its new generation. The generation counts the instances of a
node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from faultbridge.domain import names
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Phase
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import Alias, AliasRow, Incarnation, NodeState
from faultbridge.domain.times import to_text
from faultbridge.pipeline import entry_builder
from faultbridge.ports import LaunchedInstance
from faultbridge.repair.attempt.progress import move_node, update_attempt
from faultbridge.repair.attempt.step_context import Change, StepContext
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, AnyOf, Condition, Equals, Item, Key, Put, Update, Write

MAX_FORMER_INSTANCES = 8


class InstanceTaken(Exception):  # noqa: N818 - an expected situation, not an error
    """Raised if an instance already backs another node or is claimed for another case."""


def claim(context: StepContext, candidate: LaunchedInstance) -> Change:
    """Return the change that attaches an instance to the node as its successor.

    The change raises InstanceTaken if the instance backs another node or is claimed for another case.
    """

    def revise(state: NodeState, now: datetime) -> Transition:
        aliases = {keys.alias(*alias): alias for alias in _aliases_of(state, candidate)}
        former = state.incarnation.instance_id if state.incarnation else None
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
    step = entry_builder.step(
        context.case,
        "await_successor",
        "claimed",
        now,
        old_instance=next(iter(leaving), None),
        new_instance=candidate.instance_id,
        facts=_facts(context, candidate),
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


def _facts(context: StepContext, candidate: LaunchedInstance) -> dict[str, Any]:
    facts = {"launched_at": to_text(candidate.launched_at), "instance_type": candidate.instance_type}
    return facts | ({"spare": True} if candidate.instance_id == context.attempt.spare else {})


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
    holder = {"cluster": key.cluster, "node": key.node, "case": case.id, "attempt": case.attempts}
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
