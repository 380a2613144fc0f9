"""What a run on the fakes would be billed for: calls made by our code, invocations, and requests by AWS's own units.

The fakes see every call of a port. One call of a port is as many calls of AWS as its adapter makes of it. Sizes are
those of an item as JSON, which is near what DynamoDB counts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from faultbridge.adapters.dynamodb.table import READ_AT_ONCE
from faultbridge.adapters.messaging.eventbridge import ENTRIES_AT_ONCE
from faultbridge.simulation.fakes.seams import Call
from faultbridge.simulation.fakes.table import PROJECTED, FakeTable, StreamRecord
from faultbridge.storage.codec import dump
from faultbridge.storage.writes import INDEXES, WORK, Index, Item, Key

PRICES = json.loads((Path(__file__).parent / "prices.json").read_text(encoding="utf-8"))
WRITE_UNIT, READ_UNIT, EVENT_UNIT = 1024, 4096, 64 * 1024
QUEUE_AT_ONCE = 10
TIME = "lambda_gb_second"
GIGABYTE_SECONDS = PRICES["assumed"]["seconds_an_invocation"] * PRICES["assumed"]["gigabytes_of_memory"]

# Calls of ports that no adapter makes: what only the simulation asks of its fakes.
NO_CALL = frozenset({"receipts.write", "fleet.launch"})


@dataclass(frozen=True)
class Bill:
    """Calls by name, invocations by function, and billed requests by kind."""

    calls: Counter[str] = field(default_factory=Counter)
    invocations: Counter[str] = field(default_factory=Counter)
    billed: dict[str, float] = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """All billed requests and units; time is none."""
        return round(sum(number for kind, number in self.billed.items() if kind != TIME))

    @property
    def ours(self) -> int:
        """All calls that our code made."""
        return self.calls.total()

    @property
    def dollars(self) -> float:
        """What the billed requests cost."""
        return sum(PRICES["requests"][kind] * number for kind, number in self.billed.items())


class Meter:
    """Counts what a list of calls and a table came to since it was made."""

    def __init__(self, calls: Sequence[Call], table: FakeTable) -> None:
        self._made, self._table = calls, table
        self._calls, self._changes = len(calls), len(table.stream)
        self.invocations: Counter[str] = Counter()

    def bill(self, messages: int = 0) -> Bill:
        """Add it up; each ten messages were sent, received and deleted with a request of the queue each."""
        items = {Key(str(item["pk"]), str(item["sk"])): item for item in self._table.items()}
        calls = [call for call in self._made[self._calls :] if call.name not in NO_CALL]
        counted: Counter[str] = Counter()
        for call in calls:
            counted[call.name] += _requests(call)
        billed: dict[str, float] = {
            "lambda_request": self.invocations.total(),
            TIME: self.invocations.total() * GIGABYTE_SECONDS,
            "sqs_request": _up(messages, QUEUE_AT_ONCE) * 3 + counted["queue.send"],
            "write_request_unit": self._write_units(calls),
            "read_request_unit": sum(_read_units(call, items) for call in calls),
            "eventbridge_event": sum(_event_units(call) for call in calls if call.name == "bus.put"),
            "s3_put": counted["objects.put"] + counted["sink.put"],
            "sns_publish": sum(number for name, number in counted.items() if name.startswith("pager.")),
        }
        return Bill(counted, self.invocations, {kind: number for kind, number in billed.items() if number})

    def _write_units(self, calls: Sequence[Call]) -> int:
        """A transaction costs twice; an index costs for each row of it that comes, goes or changes."""
        by_commit: dict[int, list[StreamRecord]] = {}
        for change in self._table.stream[self._changes :]:
            by_commit.setdefault(change.transaction, []).append(change)
        commits, units = list(by_commit.values()), 0
        for call in calls:
            if call.name not in {"table.write", "table.transact"}:
                continue
            times, wanted = (
                (2, {one.key for one in call.argument})
                if call.name == "table.transact"
                else (
                    1,
                    {call.argument.key},
                )
            )
            if commits and {change.key for change in commits[0]} <= wanted:
                units += sum(times * _up(_size(one), WRITE_UNIT) + _index_units(one) for one in commits.pop(0))
            else:
                units += times * len(wanted)  # refused, or as it was already: billed all the same
        return units


def _read_units(call: Call, items: Mapping[Key, Item]) -> int:
    """Consistent reads; a query counts as one unit, which is what a short page costs."""
    wanted: Sequence[Key] = ()
    if call.name == "table.get":
        wanted = (call.argument,)
    elif call.name == "table.get_many":
        wanted = call.argument
    elif call.name == "table.query":
        return 1
    return sum(max(1, _up(_bytes(items.get(key)), READ_UNIT)) for key in wanted)


def _requests(call: Call) -> int:
    many: dict[str, Callable[[], int]] = {
        "table.get_many": lambda: _up(len(call.argument), READ_AT_ONCE),
        "bus.put": lambda: _up(len(call.argument), ENTRIES_AT_ONCE),
    }
    return many.get(call.name, lambda: 1)()


def _event_units(call: Call) -> int:
    return sum(_up(len(event.detail.encode()), EVENT_UNIT) for event in call.argument)


def _index_units(change: StreamRecord) -> int:
    return sum(_index_row_units(index, change.old or {}, change.new or {}) for index in INDEXES)


def _index_row_units(index: Index, old: Item, new: Item) -> int:
    rows = [_projected(index, item) for item in (old, new)]
    if rows[0] == rows[1]:
        return 0
    moved = all(rows) and any(rows[0][name] != rows[1][name] for name in (index.pk, index.sk))
    units = max(_up(_bytes(row), WRITE_UNIT) for row in rows)
    return 2 * units if moved else units


def _projected(index: Index, item: Item) -> Item:
    if index.pk not in item:
        return {}
    names = {"pk", "sk", index.pk, index.sk} | (frozenset() if index == WORK else PROJECTED)
    return {name: value for name, value in item.items() if name in names}


def _size(change: StreamRecord) -> int:
    return max(_bytes(change.old), _bytes(change.new))


def _bytes(item: Item | None) -> int:
    return len(json.dumps(dump(dict(item)))) if item else 0


def _up(number: int, by: int) -> int:
    return -(-number // by)
