"""Causes: the chain of one timeline entry: what caused it, and what it caused.

An entry contains the id of its cause, unless it starts a chain. Causes are therefore read one by one back to the start
of the chain. Effects are read step by step through an index on the cause.

If an incident caused an entry of a case, the entry has two predecessors in the chain: its recorded cause, which is an
event of the incident, and the previous entry of the case. The search for causes continues at the previous entry of the
case, because the entries of the case lead to the fault that opened it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from faultbridge.model.causation import continues_case
from faultbridge.model.entries import FAULT_TYPES, EntryMetadata
from faultbridge.model.errors import UnknownName
from faultbridge.model.recorded import as_structure
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import CASES, EFFECTS, EVENTS, Index, Item, Key
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import query_all
from faultbridge.record.timeline import Line

MAX_LINKS = 2_000
"""Maximum number of causes, and of effects, that one chain returns."""


class Relation(StrEnum):
    """How an entry of a chain of causes relates to the requested event."""

    CAUSE = "cause"
    EVENT = "event"
    EFFECT = "effect"


@dataclass(frozen=True, slots=True)
class Link:
    """One entry of a chain of causes. `distance` is 0 for the requested event and grows on both sides."""

    line: Line
    relation: Relation
    distance: int


@dataclass(frozen=True, slots=True)
class Chain:
    """The causes of an event, the event and its effects, at most `MAX_LINKS` of each if not `complete`.

    `record` is the id of the raw record that started the chain, or None if that is not known.
    """

    links: tuple[Link, ...]
    record: str | None
    complete: bool


def read_chain(table: Table, event_id: str) -> Chain:
    """Read the causes and effects of an entry, or the effects of a raw record; raises `unknown_event`."""
    found = _find(table, event_id)
    causes, record = _causes(table, found) if found else ([], event_id)
    has_all_causes = len(causes) <= MAX_LINKS
    effects = list(_effects(table, event_id, found))
    if found is None and not effects:
        raise UnknownName("event", event_id)
    links = [*causes[:MAX_LINKS], *([_link(found, Relation.EVENT, 0)] if found else ()), *effects[:MAX_LINKS]]
    links.sort(key=lambda link: link.line.position)
    return Chain(tuple(links), record if has_all_causes else None, has_all_causes and len(effects) <= MAX_LINKS)


def _causes(table: Table, item: Item) -> tuple[list[Link], str | None]:
    """Return the causes of an entry, nearest first, and the raw record that started the chain, if known."""
    causes: dict[str, Link] = {}
    followed: set[str] = set()  # in a damaged table, an entry can be its own cause
    while len(causes) <= MAX_LINKS and (cause := _metadata(item).causation_id):
        if str(item["event_id"]) in followed:
            break
        followed.add(str(item["event_id"]))
        found = _find(table, cause)
        if found is None:
            return list(causes.values()), cause
        before = _neighbor(table, item, -1) if continues_case(_metadata(item), _metadata(found)) else None
        # An incident may have caused several entries of the case.
        for one in (found, before) if before else (found,):
            causes.setdefault(str(one["event_id"]), _link(one, Relation.CAUSE, len(causes) + 1))
        item = before or found
    return list(causes.values()), None


def _effects(table: Table, event_id: str, item: Item | None) -> Iterator[Link]:
    """Yield the effects of an event, nearest first; effects of one distance may exceed `MAX_LINKS`."""
    seen, distance = {event_id}, 0
    level = list(_effects_of(table, event_id, item))
    while level and len(seen) <= MAX_LINKS + 1:
        distance += 1
        fresh = {str(one["event_id"]): one for one in level if str(one["event_id"]) not in seen}
        seen |= fresh.keys()
        yield from (_link(one, Relation.EFFECT, distance) for one in fresh.values())
        level = [effect for name, one in fresh.items() for effect in _effects_of(table, name, one)]


def _effects_of(table: Table, event_id: str, item: Item | None) -> Iterator[Item]:
    """Yield the entries that an event caused.

    These are the entries that name the event as their cause. If none of them is of the event's case, and the recorded
    cause of the next entry of the case is an event of an incident, this next entry is yielded too: it continues the
    chain of the case. `item` is the entry of the event, or None if `event_id` is the id of a raw record.
    """
    named = list(_entries(table, EFFECTS, keys.effects_of(event_id)))
    yield from named
    if item is None or not _is_of_case(item, item) or any(_is_of_case(one, item) for one in named):
        return
    after = _neighbor(table, item, 1)
    cause = _metadata(after).causation_id if after else None
    found = _find(table, cause) if cause else None
    if after and found and continues_case(_metadata(after), _metadata(found)):
        yield after


def _neighbor(table: Table, item: Item, step: int) -> Item | None:
    """Return the entry of the same case after (`step` 1) or before (-1) `item`, faults left out, or None."""
    listed = query_all(table, keys.case(str(item["case_id"])).pk, index=CASES)
    case = sorted((one for one in listed if _is_of_case(one, item)), key=lambda one: str(one["sk"]))
    place = [one["sk"] for one in case].index(item["sk"]) + step
    return table.get(Key(str(case[place]["pk"]), str(case[place]["sk"]))) if 0 <= place < len(case) else None


def _is_of_case(one: Item, item: Item) -> bool:
    same = one["pk"] == item["pk"] and one.get("case_id") == item.get("case_id") is not None
    return same and one.get("type") not in FAULT_TYPES


def _find(table: Table, event_id: str) -> Item | None:
    return next(_entries(table, EVENTS, keys.event(event_id)), None)


def _metadata(item: Item) -> EntryMetadata:
    return as_structure(EntryMetadata, json.loads(str(item["body"]))["metadata"])


def _entries(table: Table, index: Index, partition: str) -> Iterator[Item]:
    """Return the complete entries that one partition of an index lists, without expired entries."""
    listed = [Key(str(row["pk"]), str(row["sk"])) for row in query_all(table, partition, index=index)]
    entries = table.get_many(listed) if listed else {}
    return (entries[key] for key in listed if key in entries)


def _link(item: Item, relation: Relation, distance: int) -> Link:
    return Link(Line(str(item["body"]), str(item["hash"]), str(item["gsi1sk"])), relation, distance)
