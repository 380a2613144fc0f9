"""Claim: one instance serves one node. The claim, the new generation and the names commit together or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from faultbridge.domain import names
from faultbridge.domain.aliases import Alias, AliasRow
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Phase
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import Incarnation, NodeState
from faultbridge.domain.times import to_text
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Candidate
from faultbridge.repair.attempt.progress import moved, with_attempt
from faultbridge.repair.attempt.step_context import Change, Work
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, AnyOf, Condition, Equals, Item, Key, Put, Update, Write

MAX_FORMER = 8
MAX_ALIASES = 20


class Taken(Exception):  # noqa: N818 - a fact, no error
    """Another node has the instance."""


def claim(work: Work, candidate: Candidate) -> Change:
    """Return the revision that nodes the candidate; it raises Taken when another node has it."""

    def revise(state: NodeState, now: datetime) -> Transition:
        wanted = {keys.alias(*alias): alias for alias in _names(state, candidate)}
        former = state.incarnation.instance_id if state.incarnation else None
        places = [keys.claim(candidate.instance_id), *wanted]
        places += [keys.alias("instance", former)] if former else []
        found = work.tools.table.get_many(places)
        if _is_taken(work, found, candidate.instance_id):
            raise Taken
        free = {place: alias for place, alias in wanted.items() if not _leads_elsewhere(found.get(place), state)}
        beside: tuple[Write, ...] = (
            _claim_write(work, candidate, now),
            _roster_write(work, state, candidate),
            *(_alias_write(alias, found.get(place), state, candidate, now) for place, alias in free.items()),
            *_former_alias(former, found, now),
        )
        return _seated(work, state, candidate, tuple(free.values()), now, beside)

    return revise


def _seated(
    work: Work,
    state: NodeState,
    candidate: Candidate,
    free: tuple[Alias, ...],
    now: datetime,
    beside: tuple[Write, ...],
) -> Transition:
    old = state.incarnation
    acted = work.case.marks.get(Phase.ACTED.value, candidate.launched_at)
    known = [alias.value.split("/", 1)[1] for alias in free if alias.kind == "name"]
    aliases = dict.fromkeys((*state.placement.aliases, *known))
    leaving = (old.instance_id,) if old and old.instance_id else ()
    # Launch times come in whole seconds: one may seem to lie before the old instance was given up.
    since = max(candidate.launched_at, acted)
    state = replace(
        with_attempt(state, successor=candidate.instance_id),
        incarnation=Incarnation((old.instance if old else 0) + 1, 1, candidate.instance_id, None, since),
        former_instances=(*state.former_instances, *leaving)[-MAX_FORMER:],
        placement=replace(
            state.placement,
            instance_type=candidate.instance_type or state.placement.instance_type,
            aliases=tuple(aliases)[-MAX_ALIASES:],
        ),
        devices=(),
        unverified=False,
    )
    step = entry_builder.step(
        work.case,
        "await_successor",
        "claimed",
        now,
        old_instance=next(iter(leaving), None),
        new_instance=candidate.instance_id,
        facts=_facts(work, candidate),
    )
    state, draft = moved(state, NodeStatus.VALIDATING, now, "successor claimed, generation raised")
    return Transition(state, (step, draft), beside)


def _facts(work: Work, candidate: Candidate) -> dict[str, Any]:
    told = {"launched_at": to_text(candidate.launched_at), "instance_type": candidate.instance_type}
    return told | ({"spare": True} if candidate.instance_id == work.attempt.spare else {})


def _names(state: NodeState, candidate: Candidate) -> Iterator[Alias]:
    yield Alias("instance", candidate.instance_id)
    dns = candidate.private_dns or ""
    for name in dict.fromkeys((dns, dns.split(".", 1)[0])):
        if names.NODE_NAME.fullmatch(name) and name != state.key.node:
            yield Alias("name", f"{state.key.cluster}/{name}")


def _is_taken(work: Work, found: dict[Key, Item], instance_id: str) -> bool:
    claimed = found.get(keys.claim(instance_id))
    if claimed is not None and claimed["case"] != work.request.case:
        return True
    return _leads_elsewhere(found.get(keys.alias("instance", instance_id)), work.state)


def _leads_elsewhere(found: Item | None, state: NodeState) -> bool:
    if found is None:
        return False
    row = items.read_alias(found)
    return row.valid_to is None and row.key != state.key


def _claim_write(work: Work, candidate: Candidate, now: datetime) -> Put:
    key, case = work.state.key, work.case
    told = {"cluster": key.cluster, "node": key.node, "case": case.id, "attempt": case.attempts}
    return Put(
        items.item(keys.claim(candidate.instance_id), now, told),
        when=AnyOf((Absent(), Equals("case", case.id))),
    )


def _alias_write(alias: Alias, found: Item | None, state: NodeState, candidate: Candidate, now: datetime) -> Put:
    row = AliasRow(state.key, candidate.instance_id, candidate.launched_at)
    unchanged: Condition = Absent() if found is None else Equals("valid_from", str(found["valid_from"]))
    return Put(items.alias_item(alias, row, now), when=unchanged)


def _former_alias(former: str | None, found: dict[Key, Item], now: datetime) -> Iterator[Put]:
    item = found.get(keys.alias("instance", former)) if former else None
    if former and item is not None:
        row = replace(items.read_alias(item), valid_to=now)
        yield Put(items.alias_item(Alias("instance", former), row, now))


def _roster_write(work: Work, state: NodeState, candidate: Candidate) -> Update:
    generation = (state.incarnation.instance if state.incarnation else 0) + 1
    place = keys.roster(state.key.cluster, work.rules.config.shard(state.key.node), state.key.node)
    return Update(place, set={("generation",): generation, ("instance",): candidate.instance_id})
