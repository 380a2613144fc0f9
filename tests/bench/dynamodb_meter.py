"""The bill of a run on fakes: calls of the product, invocations, and billed AWS requests.

The fakes record every call to a port. Each call counts as the number of AWS calls that its adapter makes. Items have
the size that DynamoDB counts. A page of a query is billed by its whole size, as DynamoDB bills it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faultbridge.adapters.aws.dynamodb import READ_AT_ONCE
from faultbridge.adapters.aws.messaging import ENTRIES_AT_ONCE
from faultbridge.model.storage.writes import INDEXES, Index, Item, Key, Page
from infra.docs.template import template
from tests.sim.fakes.item_size import item_bytes
from tests.sim.fakes.seam import Call
from tests.sim.fakes.table import PROJECTED, FakeTable, StreamRecord

PRICES = json.loads((Path(__file__).parent / "prices.json").read_text(encoding="utf-8"))
TIME = "lambda_gb_second"
PRICES["requests"][TIME] = PRICES[TIME][template()["Parameters"]["Architecture"]["Default"]]
WRITE_UNIT, READ_UNIT, EVENT_UNIT = 1024, 4096, 64 * 1024
QUEUE_AT_ONCE = 10
GIGABYTE_SECONDS = PRICES["assumed"]["seconds_an_invocation"] * PRICES["assumed"]["gigabytes_of_memory"]

LAGGING_READ = "table.get_many_lagging"
READS_OF_MANY = frozenset({"table.get_many", LAGGING_READ})
# Calls of the fakes that no adapter makes.
FAKE_ONLY_CALLS = frozenset({"receipts.write", "fleet.launch"})


@dataclass(frozen=True)
class Bill:
    """Calls by name, invocations by function, and billed requests by kind."""

    calls: Counter[str] = field(default_factory=Counter)
    invocations: Counter[str] = field(default_factory=Counter)
    billed: dict[str, float] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """The number of billed requests and units, without run time."""
        return round(sum(number for kind, number in self.billed.items() if kind != TIME))

    @property
    def call_count(self) -> int:
        """The number of all calls of the product."""
        return self.calls.total()

    @property
    def dollars(self) -> float:
        """The cost of the billed requests in US dollars."""
        return float(sum(PRICES["requests"][kind] * number for kind, number in self.billed.items()))


class Meter:
    """Counts the calls of a list and the changes of a table from its creation on.

    `queried` contains the read units of the queries of each partition.
    """

    def __init__(self, calls: Sequence[Call], table: FakeTable) -> None:
        self._made, self._table = calls, table
        self._calls, self._changes = len(calls), len(table.stream)
        self.invocations: Counter[str] = Counter()
        self.queried: Counter[str] = Counter()
        query = table.query

        def measured(pk: str, **others: Any) -> Page:
            page = query(pk, **others)
            self.queried[pk] += max(1, _units(sum(map(item_bytes, page.items)), READ_UNIT))
            return page

        # Every reader of the table calls it through this attribute. Earlier meters of the table count on.
        table.query = measured  # type: ignore[method-assign]

    def reads_by_partition(self) -> Mapping[str, float]:
        """Return the read units of each partition key: of its queries, and of its items read by their keys."""
        units: dict[str, float] = defaultdict(float, self.queried)
        items = {Key(str(item["pk"]), str(item["sk"])): item for item in self._table.items()}
        for call in self._made[self._calls :]:
            for key in _read_keys(call):
                units[key.pk] += _item_units(call, items.get(key))
        return units

    def max_item_bytes(self) -> int:
        """Return the size of the largest item that was written."""
        changed = self._table.stream[self._changes :]
        return max((item_bytes(change.new) for change in changed if change.new), default=0)

    def bill(self, messages: int = 0) -> Bill:
        """Return the bill; ten messages cost one queue request each to send, receive and delete."""
        items = {Key(str(item["pk"]), str(item["sk"])): item for item in self._table.items()}
        calls = [call for call in self._made[self._calls :] if call.name not in FAKE_ONLY_CALLS]
        counted: Counter[str] = Counter()
        for call in calls:
            counted[call.name] += _requests(call)
        billed: dict[str, float] = {
            "lambda_request": self.invocations.total(),
            TIME: self.invocations.total() * GIGABYTE_SECONDS,
            "sqs_request": _units(messages, QUEUE_AT_ONCE) * 3 + counted["queue.send"],
            "write_request_unit": self._write_units(calls),
            "read_request_unit": sum(_item_units(call, items.get(key)) for call in calls for key in _read_keys(call))
            + self.queried.total(),
            "eventbridge_event": sum(_event_units(call) for call in calls if call.name == "bus.put"),
            "s3_put": counted["objects.put"] + counted["sink.put"],
            "sns_publish": sum(number for name, number in counted.items() if name.startswith("pager.")),
        }
        return Bill(counted, self.invocations, {kind: number for kind, number in billed.items() if number})

    def _write_units(self, calls: Sequence[Call]) -> int:
        """Return the write units; a transaction costs double, and each changed index row costs extra."""
        by_commit: dict[int, list[StreamRecord]] = {}
        for change in self._table.stream[self._changes :]:
            by_commit.setdefault(change.transaction, []).append(change)
        commits, units = list(by_commit.values()), 0
        for call in calls:
            if call.name not in {"table.write", "table.transact"}:
                continue
            writes = call.argument if call.name == "table.transact" else (call.argument,)
            times, wanted = 2 if call.name == "table.transact" else 1, {one.key for one in writes}
            if commits and {change.key for change in commits[0]} <= wanted:
                units += sum(times * _units(_size(one), WRITE_UNIT) + _index_units(one) for one in commits.pop(0))
            else:
                units += times * len(wanted)  # a rejected write, or one without a change, is also billed
        return units


def _read_keys(call: Call) -> Sequence[Key]:
    """Return the keys of the items that a call reads; a query has none."""
    if call.name == "table.get":
        return (call.argument,)
    return tuple(call.argument) if call.name in READS_OF_MANY else ()


def _item_units(call: Call, item: Item | None) -> float:
    """Return the read units of one item, which may not exist; a read that is not consistent costs half."""
    return max(1, _units(_bytes(item), READ_UNIT)) / (2 if call.name == LAGGING_READ else 1)


def _requests(call: Call) -> int:
    """Return how many AWS calls the adapter makes for a call."""
    many: dict[str, Callable[[], int]] = {
        **dict.fromkeys(READS_OF_MANY, lambda: _units(len(call.argument), READ_AT_ONCE)),
        "bus.put": lambda: _units(len(call.argument), ENTRIES_AT_ONCE),
    }
    return many.get(call.name, lambda: 1)()


def _event_units(call: Call) -> int:
    return sum(_units(len(event.detail.encode()), EVENT_UNIT) for event in call.argument)


def _index_units(change: StreamRecord) -> int:
    return sum(_index_row_units(index, change.old or {}, change.new or {}) for index in INDEXES)


def _index_row_units(index: Index, old: Item, new: Item) -> int:
    """Return the write units of one index row; a changed key costs a delete and a put."""
    rows = [_projected(index, item) for item in (old, new)]
    if rows[0] == rows[1]:
        return 0
    moved = all(rows) and any(rows[0][name] != rows[1][name] for name in (index.pk, index.sk))
    units = max(_units(_bytes(row), WRITE_UNIT) for row in rows)
    return 2 * units if moved else units


def _projected(index: Index, item: Item) -> Item:
    if index.pk not in item:
        return {}
    names = {"pk", "sk", index.pk, index.sk} | (frozenset() if index.keys_only else PROJECTED)
    return {name: value for name, value in item.items() if name in names}


def _size(change: StreamRecord) -> int:
    return max(_bytes(change.old), _bytes(change.new))


def _bytes(item: Item | None) -> int:
    return item_bytes(item) if item else 0


def _units(number: int, by: int) -> int:
    """Divide and round up."""
    return -(-number // by)
