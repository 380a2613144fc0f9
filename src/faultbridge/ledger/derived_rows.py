"""Derived rows: recomputes the items that follow from a stream, and finds stored items that differ.

`StreamFacts` collects what the entries of one stream determine. `differences` compares one stored item with the item
that is expected.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.state import ClusterState
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Misconfigured
from faultbridge.ledger.entry_attributes import ParsedEntry
from faultbridge.ledger.streams import partition
from faultbridge.ports import Table
from faultbridge.storage import items, keys, projections
from faultbridge.storage.item_kinds import kind_of
from faultbridge.storage.projections import index_rows
from faultbridge.storage.proof import Proof
from faultbridge.storage.writes import Item, Key

_STATUS_TYPES = frozenset({EntryType.NODE_STATUS, EntryType.CLUSTER_STATUS})
_COMPACT_ROWS = (projections.UNHEALTHY, projections.QUEUE)
"""The prefixes of rows without empty attributes. Rows of an earlier version have them until they are rewritten."""
_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of the write in expected items; it is not compared."""

Difference = tuple[Key, str]
"""The key of an item, and what is wrong with it."""


@dataclass(slots=True)
class StreamFacts:
    """What the entries of one stream determine about the other items of the table.

    - `status` is the last status of the node or cluster, and `status_event` the id of the entry that recorded it.
    - `cases` maps the id of a case to its last status and resolution.
    - `links` contains the index rows of jobs and devices by key.
    - A table row maps the UUID of a device to its serial number. `serials` maps the key of this row to all serial
      numbers that entries state for the UUID.
    """

    status: str | None = None
    status_event: str | None = None
    cases: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    links: dict[Key, Item] = field(default_factory=dict)
    serials: dict[Key, set[str]] = field(default_factory=dict)

    def add(self, parsed: ParsedEntry) -> None:
        """Update the status, cases, index rows and serial numbers from the next entry of the stream.

        Entries must be added in the order of the stream, because a later status replaces an earlier one.
        """
        entry, data = parsed.entry, parsed.data
        if entry.type in _STATUS_TYPES:
            self.status, self.status_event = data.get("to"), entry.event_id
        elif entry.type is EntryType.CASE_STATUS and entry.case_id:
            self.cases[str(entry.case_id)] = (str(data.get("to")), data.get("resolution"))
        draft = Draft(entry.type, entry.recorded_at, data)
        for put in index_rows((draft,), (entry,), partition(entry.stream), entry.recorded_at):
            if "serial" in put.item:
                self.serials.setdefault(put.key, set()).add(str(put.item["serial"]))
            else:
                self.links[put.key] = put.item


def node_differences(table: Table, stored: Item, state: NodeState, facts: StreamFacts) -> Iterator[Difference]:
    """Yield the differences between a node's state, its entries and the rows derived from them."""
    key = keys.node_state(state.key)
    yield from differences(key, stored, {**items.state_item(state, _ANY_TIME), "state": stored["state"]})
    if facts.status not in (None, state.status):
        yield key, f"state.status: the last entry says {facts.status}"
    if facts.status_event not in (None, state.status_event):
        yield key, f"state.status_event: the last status change is {facts.status_event}"
    expected = {_key(row): row for row in projections.derived_rows(state, _ANY_TIME)}
    shard = state.shard
    absent = {keys.unhealthy_node(state.key.cluster, shard, state.key.node)} - expected.keys()
    found = table.get_many([*expected, *absent])
    for row_key, row in expected.items():
        yield from differences(row_key, found.get(row_key), row)
    yield from ((row_key, "the node is healthy or retired") for row_key in absent & found.keys())
    yield from _case_differences(table, state, facts)
    yield from index_differences(table, facts)


def cluster_differences(table: Table, stored: Item, state: ClusterState, facts: StreamFacts) -> Iterator[Difference]:
    """Yield the differences between a cluster's own state, its entries and their index rows."""
    key = keys.cluster_state(state.cluster)
    yield from differences(key, stored, {**items.cluster_item(state, _ANY_TIME), "state": stored["state"]})
    if facts.status not in (None, state.status):
        yield key, f"state.status: the last entry says {facts.status}"
    yield from index_differences(table, facts)


def index_differences(table: Table, facts: StreamFacts) -> Iterator[Difference]:
    """Yield the differences between the stored index rows of jobs and devices and the entries of a stream."""
    found = table.get_many([*facts.links, *facts.serials])
    for key, link in facts.links.items():
        yield from differences(key, found.get(key), link)
    for key, serials in facts.serials.items():
        serial = found[key].get("serial") if key in found else None
        if serial not in serials:
            yield key, f"serial: the entries of the device say {', '.join(sorted(serials))}"


def _case_differences(table: Table, state: NodeState, facts: StreamFacts) -> Iterator[Difference]:
    ids = {*facts.cases, *([state.case.id] if state.case else [])}
    found = table.get_many([keys.case(case_id) for case_id in sorted(ids)])
    for case_id in sorted(ids):
        key = keys.case(case_id)
        row = found.get(key)
        if row is None:
            yield key, "the item is missing"
            continue
        try:
            case = items.read_case(row)
        except (KeyError, TypeError, ValueError, AttributeError, Misconfigured) as error:
            yield key, f"case: it cannot be read: {error}"
            continue
        shard = state.shard
        expected = {**items.case_item(case, state.key, shard, _ANY_TIME), "case": row["case"]}
        yield from differences(key, row, expected)
        last = facts.cases.get(case_id)
        if case.id != case_id or last not in (None, (case.status.value, case.resolution)):
            yield key, f"case: the last entry says {last}"
        if state.case is not None and state.case.id == case_id and case != state.case:
            yield key, "case: it differs from the case in the node's state"


def unexpected_row(row: Item, state: NodeState) -> bool:
    """Return whether a row, such as a queue row, does not follow from the state of its node."""
    return _key(row) not in {_key(one) for one in projections.derived_rows(state, _ANY_TIME)}


def _key(row: Item) -> Key:
    return Key(str(row["pk"]), str(row["sk"]))


def differences(key: Key, stored: Mapping[str, Any] | None, expected: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the differences of a stored item from the expected item.

    A difference is a missing item, a schema version that this release cannot read, or an attribute with another value.
    An attribute is not compared if the entries and the state do not determine it, or if only rows of earlier versions
    have it.
    """
    if stored is None:
        yield key, "the item is missing"
        return
    try:
        current = items.upcast(stored)
    except (KeyError, TypeError, ValueError, Misconfigured):
        yield key, "schema: no release writes it"
        return
    kind = kind_of(key)
    for name in sorted(current.keys() | expected.keys()):
        same = (name in current) == (name in expected) and current.get(name) == expected.get(name)
        if same or (name not in expected and _is_left_out(key, name, current)):
            continue
        if kind is None or kind.proof(name) is not Proof.UNPROVEN:
            yield key, f"{name}: another value follows from the record"


def _is_left_out(key: Key, name: str, row: Mapping[str, Any]) -> bool:
    """Return whether a queue row or unhealthy-node row has this attribute only from an earlier version.

    This is an empty attribute, or the time `opened` of a queued case whose next repair follows no failed repair.
    """
    kind = kind_of(key)
    if kind is None or not kind.lists(name) or not key.sk.startswith(_COMPACT_ROWS):
        return False
    return not row[name] or (key.sk.startswith(projections.QUEUE) and name == "opened" and not row.get("repeated"))
