"""What the gaps about streams and queries promise, without an emulator: whole batches, and the same answers sooner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.dynamodb.expressions import Placeholders, range_expression, sort_key_bounds
from faultbridge.local.gaps import query_cost, stream_batches

Record = dict[str, Any]


def passes(records: list[Record], mapping: Record) -> list[Record]:
    return [record for record in records if record["entry"]]


def batches(stream: list[Record], limit: int) -> Iterator[list[Record]]:
    """The batches that the emulator cuts, one after the other, as it advances by what it was given."""

    def read(_table: str, position: int, most: int) -> list[Record]:
        return stream[position : position + most]

    since = stream_batches._until_full(read, passes)
    position = 0
    for _ in stream_batches._remembering(lambda: iter([("account", "region", {"UUID": "m"})]))():
        while batch := since("table", position, limit):
            yield batch
            position += len(batch)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 8))
def test_a_batch_is_full_as_long_as_the_stream_has_entries_and_no_record_is_left_out(
    entries: list[bool], limit: int
) -> None:
    stream = [{"number": number, "entry": entry} for number, entry in enumerate(entries)]
    cut = list(batches(stream, limit))
    assert [record for batch in cut for record in batch] == stream
    passed = [len(passes(batch, {})) for batch in cut]
    assert all(number == limit for number in passed[:-1])
    assert all(number <= limit for number in passed)


def test_who_reads_a_stream_for_no_mapping_gets_what_he_asks_for() -> None:
    since = stream_batches._until_full(lambda _table, _position, limit: [{"entry": False}] * limit, passes)
    assert len(since("table", 0, 3)) == 3


keys = st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=4)


@given(keys, keys, st.none() | keys, st.none() | keys, keys)
def test_a_key_range_is_read_as_our_adapter_means_it(
    pk: str, prefix: str, after: str | None, up_to: str | None, sk: str
) -> None:
    bounds = sort_key_bounds(prefix, after, up_to)
    placeholders = Placeholders()
    expression = range_expression(("pk", pk), "sk", bounds, placeholders)
    arguments = placeholders.arguments()
    evaluate = query_cost._plainly(_never)
    names, values = arguments["ExpressionAttributeNames"], arguments["ExpressionAttributeValues"]
    for found in (pk, pk + "x"):
        item = {"pk": {"S": found}, "sk": {"S": sk}}
        within = bounds is None or bounds[0] <= sk <= bounds[1]
        assert evaluate(expression, item, values, names, slot="KeyConditionExpression") is (found == pk and within)


def test_any_other_expression_is_left_to_the_emulator() -> None:
    evaluate = query_cost._plainly(lambda *_arguments: True)
    assert evaluate("attribute_not_exists(#0)", {}, {}, {"#0": "pk"}) is True
    assert evaluate("begins_with(#0, :0)", {}, {}, {}, slot="KeyConditionExpression") is True


def _never(*_arguments: object) -> bool:
    raise AssertionError
