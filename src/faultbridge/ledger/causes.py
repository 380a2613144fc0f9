"""Causes: the chain of one entry: what caused it, and what it caused.

An entry names its cause, so causes are read one by one back to the start of the chain. Effects are read step by step
through an index on the cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from faultbridge.errors import UnknownName
from faultbridge.ledger.queries import query_all
from faultbridge.ledger.timeline import Line
from faultbridge.ports import Table
from faultbridge.storage import keys
from faultbridge.storage.writes import EFFECTS, EVENTS, Index, Item, Key

MAX_LINKS = 2_000
"""Maximum number of entries that one chain returns."""


class Relation(StrEnum):
    """How an entry of a chain relates to the event that the chain was requested for."""

    CAUSE = "cause"
    EVENT = "event"
    EFFECT = "effect"


@dataclass(frozen=True, slots=True)
class Link:
    """One entry of a chain; `distance` is the number of steps between it and the requested event."""

    line: Line
    relation: Relation
    distance: int


@dataclass(frozen=True, slots=True)
class Chain:
    """The causes of an event, the event and its effects, in the order of recording.

    `record` is the raw record that started the chain, or None. `complete` is False if more than `MAX_LINKS` entries
    belong to it.
    """

    links: tuple[Link, ...]
    record: str | None
    complete: bool


def read_chain(table: Table, event_id: str) -> Chain:
    """Read the chain of an event, or what a raw record caused. Raises Rejected `unknown_event` if there is none."""
    found = next(_entries(table, EVENTS, keys.event(event_id)), None)
    causes, record = _causes(table, found) if found else ([], event_id)
    effects = list(_effects(table, event_id))
    if found is None and not effects:
        raise UnknownName("event", event_id)
    links = [*causes, *([_link(found, Relation.EVENT, 0)] if found else ()), *effects[:MAX_LINKS]]
    links.sort(key=lambda link: link.line.position)
    return Chain(tuple(links), record, len(effects) <= MAX_LINKS)


def _causes(table: Table, item: Item) -> tuple[list[Link], str | None]:
    """Return the causes of an entry, nearest first, and the raw record at the start of the chain."""
    causes: list[Link] = []
    line = _link(item, Relation.EVENT, 0).line
    while cause := line.event["metadata"]["causation_id"]:
        found = next(_entries(table, EVENTS, keys.event(cause)), None)
        if found is None or len(causes) == MAX_LINKS:
            return causes, str(cause)
        causes.append(_link(found, Relation.CAUSE, len(causes) + 1))
        line = causes[-1].line
    return causes, None


def _effects(table: Table, event_id: str) -> Iterator[Link]:
    """Yield the effects of an event, the nearest first, and one more than the limit if there are more."""
    found, level, distance = 0, [event_id], 0
    while level and found <= MAX_LINKS:
        distance += 1
        effects = [_link(item, Relation.EFFECT, distance) for one in level for item in _effects_of(table, one)]
        yield from effects
        found += len(effects)
        level = [str(link.line.event["metadata"]["event_id"]) for link in effects]


def _effects_of(table: Table, event_id: str) -> Sequence[Item]:
    return list(_entries(table, EFFECTS, keys.effects_of(event_id)))


def _entries(table: Table, index: Index, partition: str) -> Iterator[Item]:
    """Read the complete entries that an index lists."""
    listed = [Key(str(row["pk"]), str(row["sk"])) for row in query_all(table, partition, index=index)]
    entries = table.get_many(listed) if listed else {}
    return (entries[key] for key in listed if key in entries)


def _link(item: Item, relation: Relation, distance: int) -> Link:
    return Link(Line(str(item["body"]), str(item["hash"]), str(item["gsi1sk"])), relation, distance)
