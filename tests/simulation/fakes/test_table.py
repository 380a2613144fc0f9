"""Features of the fake table beyond the contract: index lag, small pages, stream."""

from __future__ import annotations

import operator
from datetime import timedelta
from typing import Any

import pytest
import yaml

from faultbridge.model.errors import Conflict, Misconfigured
from faultbridge.model.storage.writes import INDEXES, TIMELINE, WORK, Absent, Check, Delete, Key, Present, Put, Update
from tests.conftest import ROOT
from tests.sim.fakes import FakeTable, ManualClock
from tests.sim.fakes.table import PROJECTED

KEY = Key("P", "S")
INDEXED = Put({"pk": "P", "sk": "S", "gsi4pk": "OUT#0", "gsi4sk": "1"})
LAG = timedelta(seconds=2)


class TestIndexLag:
    def test_an_index_shows_a_write_only_after_the_lag(self) -> None:
        clock = ManualClock()
        table = FakeTable(clock, index_lag=LAG)
        table.write(INDEXED)
        assert table.get(KEY) is not None
        assert table.query("OUT#0", index=WORK).items == ()
        clock.advance(LAG)
        assert len(table.query("OUT#0", index=WORK).items) == 1

    def test_an_index_shows_a_deleted_item_until_the_lag_is_over(self) -> None:
        clock = ManualClock()
        table = FakeTable(clock, index_lag=LAG)
        table.write(INDEXED)
        clock.advance(60)
        table.write(Delete(KEY))
        assert len(table.query("OUT#0", index=WORK).items) == 1
        clock.advance(LAG)
        assert table.query("OUT#0", index=WORK).items == ()

    def test_a_longer_lag_does_not_hide_old_items(self) -> None:
        clock = ManualClock()
        table = FakeTable(clock)
        table.write(INDEXED)
        clock.advance(1)
        table.write(Update(KEY, set={("a",): 1}))
        table.index_lag = timedelta(hours=1)
        assert len(table.query("OUT#0", index=WORK).items) == 1

    def test_the_base_table_has_no_lag(self) -> None:
        table = FakeTable(index_lag=LAG)
        table.write(INDEXED)
        assert len(table.query("P").items) == 1


def test_a_page_size_limits_every_query() -> None:
    table = FakeTable(page_size=1)
    for sk in "abc":
        table.write(Put({"pk": "P", "sk": sk}))
    page = table.query("P", limit=10)
    assert [item["sk"] for item in page.items] == ["a"]
    assert [item["sk"] for item in table.query("P", start=page.next).items] == ["b"]


class TestSharedValues:
    """Readers get the stored values themselves."""

    @pytest.fixture
    def table(self) -> FakeTable:
        table = FakeTable()
        table.write(Put({"pk": "P", "sk": "S", "mapping": {"a": {"b": 1}}, "list": [1]}))
        return table

    def test_a_value_within_a_read_item_cannot_be_changed(self, table: FakeTable) -> None:
        read: Any = table.get(KEY)
        for change in (
            lambda: read["mapping"].update(a=2),
            lambda: read["mapping"]["a"].pop("b"),
            lambda: read["list"].append(2),
            lambda: operator.setitem(read["mapping"], "a", 2),
        ):
            with pytest.raises(TypeError):
                change()
        assert table.get(KEY) == {"pk": "P", "sk": "S", "mapping": {"a": {"b": 1}}, "list": [1]}

    def test_a_read_item_itself_cannot_be_changed(self, table: FakeTable) -> None:
        read: Any = table.get(KEY)
        with pytest.raises(TypeError):
            read["mapping"] = 2

    def test_an_update_within_a_mapping_leaves_earlier_readers_alone(self, table: FakeTable) -> None:
        read: Any = table.get(KEY)
        table.write(Update(KEY, set={("mapping", "a", "b"): 2, ("mapping", "c"): [3]}, remove=(("mapping", "d"),)))
        assert read["mapping"] == {"a": {"b": 1}}
        assert (table.get(KEY) or {})["mapping"] == {"a": {"b": 2}, "c": [3]}


class TestStream:
    def test_every_change_is_one_record_and_a_write_without_change_is_none(self) -> None:
        table = FakeTable()
        table.write(Put({"pk": "P", "sk": "S", "a": 1}))
        table.write(Put({"pk": "P", "sk": "S", "a": 1}))
        table.write(Update(KEY, set={("a",): 2}))
        table.write(Check(KEY, Present()))
        table.write(Delete(KEY))
        table.write(Delete(KEY))
        assert [record.event for record in table.stream] == ["INSERT", "MODIFY", "REMOVE"]

    def test_the_records_of_one_transaction_have_the_same_number(self) -> None:
        table = FakeTable()
        table.write(INDEXED)
        table.transact([Put({"pk": "P", "sk": "1"}), Put({"pk": "P", "sk": "2"})])
        assert [record.transaction for record in table.stream] == [1, 2, 2]

    def test_a_failed_write_adds_no_record(self) -> None:
        table = FakeTable()
        table.write(INDEXED)
        with pytest.raises(Conflict):
            table.transact([Put({"pk": "P", "sk": "1"}), Put({"pk": "P", "sk": "S"}, when=Absent())])
        assert len(table.stream) == 1

    def test_a_record_converts_to_the_lambda_format(self) -> None:
        table = FakeTable()
        table.write(Put({"pk": "P", "sk": "S", "n": 1}))
        (record,) = table.stream
        assert record.as_lambda_record()["eventName"] == "INSERT"
        image = {"pk": {"S": "P"}, "sk": {"S": "S"}, "n": {"N": "1"}}
        assert record.as_lambda_record()["dynamodb"]["NewImage"] == image


def test_the_indexes_of_the_fake_match_the_template() -> None:
    class Loader(yaml.SafeLoader):
        """Loads CloudFormation tags as plain values."""

    Loader.add_multi_constructor("!", lambda loader, suffix, node: suffix)
    template = yaml.load((ROOT / "infra" / "template.yaml").read_text(), Loader)  # noqa: S506 - a SafeLoader
    indexes = {
        index["IndexName"]: index for index in template["Resources"]["Table"]["Properties"]["GlobalSecondaryIndexes"]
    }
    assert sorted(indexes) == sorted(index.name for index in INDEXES)
    assert indexes[WORK.name]["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    assert set(indexes[TIMELINE.name]["Projection"]["NonKeyAttributes"]) == PROJECTED


def test_a_transaction_over_4_mb_is_refused_and_one_just_below_is_not() -> None:
    table = FakeTable()

    def items(size: int) -> list[Put]:
        return [Put({"pk": "P", "sk": f"{number:02d}", "text": "x" * size}) for number in range(12)]

    with pytest.raises(Misconfigured):
        table.transact(items(390 * 1024))
    table.transact(items(330 * 1024))
    assert len(table.query("P").items) == 12
