"""The Table port: the same tests for the fake and DynamoDB (on moto)."""

from __future__ import annotations

from contextlib import suppress
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.dynamodb import DynamoTable
from faultbridge.model.errors import Conflict, Misconfigured
from faultbridge.model.storage.writes import (
    CASES,
    TIMELINE,
    WORK,
    Absent,
    AnyOf,
    Below,
    Check,
    Condition,
    Delete,
    Equals,
    Item,
    Key,
    Packed,
    Present,
    Put,
    Update,
    Write,
)
from faultbridge.record.ports.table import Table
from tests.contracts.aws import ON_MOTO, fresh, make_table
from tests.sim.fakes import FakeTable

STATE = Key("NODE#c#n", "STATE")


@pytest.fixture(scope="module")
def dynamo(clients: Clients) -> DynamoTable:
    return DynamoTable(clients, make_table(clients))


@pytest.fixture(params=["fake", "dynamodb"])
def table(request: pytest.FixtureRequest, clients: Clients) -> Table:
    return FakeTable() if request.param == "fake" else DynamoTable(clients, make_table(clients))


@pytest.fixture
def table_with_tokens(request: pytest.FixtureRequest, table: Table) -> Table:
    if ON_MOTO and isinstance(table, DynamoTable):
        request.applymarker(pytest.mark.xfail(reason="moto keeps no ClientRequestToken", strict=True))
    return table


def item(sk: str = "STATE", pk: str = "NODE#c#n", **attributes: object) -> Item:
    return {"pk": pk, "sk": sk, **attributes}  # type: ignore[dict-item] # attributes are values


def keys(page_items: tuple[Item, ...]) -> list[object]:
    return [each["sk"] for each in page_items]


class TestReading:
    def test_an_item_is_read_back_unchanged(self, table: Table) -> None:
        written = item(
            text="ä\u0000", empty="", number=-12345678901234567890, yes=True, no=False, nothing=None,
            many=[1, "a", [True, None]], deep={"a": {"b": {}}}, none=[], packed=Packed(b"\x00\xff"),
        )  # fmt: skip
        table.write(Put(written))
        assert table.get(STATE) == written
        assert isinstance(table.get(STATE)["yes"], bool)  # type: ignore[index] # it stands there
        assert isinstance(table.get(STATE)["packed"], Packed)  # type: ignore[index] # it stands there

    def test_a_missing_item_is_none(self, table: Table) -> None:
        assert table.get(STATE) is None

    @pytest.mark.parametrize("value", [1.5, b"bytes", {"a", "b"}, {"a": 0.5}, [2.5], {1: "a"}])
    def test_a_value_that_cannot_be_read_back_exactly_is_an_error(self, table: Table, value: object) -> None:
        with pytest.raises(TypeError):
            table.write(Put(item(value=value)))
        assert table.get(STATE) is None

    def test_many_keys_are_read_in_one_call_without_the_missing_ones(self, table: Table) -> None:
        wanted = [Key("P", f"{number:03d}") for number in range(230)]
        for key in wanted[::2]:
            table.write(Put(item(key.sk, key.pk)))
        found = table.get_many([*wanted, *wanted])
        assert set(found) == set(wanted[::2])
        assert all(found[key]["sk"] == key.sk for key in found)

    def test_a_change_of_a_read_item_does_not_change_the_table(self, table: Table) -> None:
        table.write(Put(item(deep={"a": 1})))
        read = table.get(STATE)
        assert read is not None
        with suppress(TypeError):  # what the fake returns is read-only
            read["deep"]["a"] = 2  # type: ignore[index, call-overload] # it is a mapping
        assert table.get(STATE) == item(deep={"a": 1})


class TestQueries:
    @pytest.fixture
    def filled(self, table: Table) -> Table:
        for sk in ["ENTRY#1", "ENTRY#2", "ENTRY#3", "SEEN", "DEVICES"]:
            table.write(Put(item(sk)))
        table.write(Put(item("ENTRY#2", "NODE#c#other")))
        return table

    def test_a_partition_is_in_key_order(self, filled: Table) -> None:
        page = filled.query("NODE#c#n")
        assert keys(page.items) == ["DEVICES", "ENTRY#1", "ENTRY#2", "ENTRY#3", "SEEN"]
        assert page.next is None

    def test_a_prefix_limits_the_sort_key(self, filled: Table) -> None:
        assert keys(filled.query("NODE#c#n", prefix="ENTRY#").items) == ["ENTRY#1", "ENTRY#2", "ENTRY#3"]

    def test_after_is_exclusive_and_up_to_is_inclusive(self, filled: Table) -> None:
        assert keys(filled.query("NODE#c#n", after="ENTRY#1", up_to="ENTRY#3").items) == ["ENTRY#2", "ENTRY#3"]
        assert keys(filled.query("NODE#c#n", up_to="ENTRY#1").items) == ["DEVICES", "ENTRY#1"]
        assert keys(filled.query("NODE#c#n", after="ENTRY#2").items) == ["ENTRY#3", "SEEN"]

    def test_all_bounds_apply_together(self, filled: Table) -> None:
        assert keys(filled.query("NODE#c#n", prefix="ENTRY#", after="ENTRY#1").items) == ["ENTRY#2", "ENTRY#3"]
        assert keys(filled.query("NODE#c#n", prefix="ENTRY#", up_to="ENTRY#1").items) == ["ENTRY#1"]

    def test_contradicting_bounds_return_nothing(self, filled: Table) -> None:
        assert filled.query("NODE#c#n", after="Z", up_to="A").items == ()
        assert filled.query("NODE#c#n", prefix="A", after="B").items == ()

    def test_newest_first_reverses_the_order(self, filled: Table) -> None:
        page = filled.query("NODE#c#n", prefix="ENTRY#", newest_first=True, limit=1)
        assert keys(page.items) == ["ENTRY#3"]

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_pages_have_no_gap_and_no_repetition(self, filled: Table, newest_first: bool) -> None:
        found: list[object] = []
        start = None
        for _ in count():
            page = filled.query("NODE#c#n", limit=2, start=start, newest_first=newest_first)
            found += keys(page.items)
            assert len(page.items) <= 2
            start = page.next
            if start is None:
                break
        expected = ["DEVICES", "ENTRY#1", "ENTRY#2", "ENTRY#3", "SEEN"]
        assert found == (expected[::-1] if newest_first else expected)

    def test_an_empty_partition_is_an_empty_page(self, table: Table) -> None:
        page = table.query("NODE#c#nobody")
        assert page.items == ()
        assert page.next is None


class TestIndexes:
    def test_an_index_contains_the_items_with_its_keys(self, table: Table) -> None:
        table.write(Put(item("ENTRY#1", gsi1pk="T#c#0", gsi1sk="2026-02", body="b", evidence="long")))
        table.write(Put(item("ENTRY#2", gsi1pk="T#c#0", gsi1sk="2026-01", body="a")))
        table.write(Put(item("ENTRY#3", body="in no index")))
        found = table.query("T#c#0", index=TIMELINE).items
        assert [each["body"] for each in found] == ["a", "b"]
        assert all("evidence" not in each for each in found)

    def test_the_work_index_contains_only_keys(self, table: Table) -> None:
        table.write(Put(item("ENTRY#1", gsi4pk="OUT#0", gsi4sk="t", body="b")))
        assert table.query("OUT#0", index=WORK).items == (item("ENTRY#1", gsi4pk="OUT#0", gsi4sk="t"),)

    def test_removing_the_keys_removes_the_item_from_the_index(self, table: Table) -> None:
        table.write(Put(item("ENTRY#1", gsi4pk="OUT#0", gsi4sk="t", body="b")))
        table.write(Update(Key("NODE#c#n", "ENTRY#1"), remove=(("gsi4pk",), ("gsi4sk",)), when=Present()))
        assert table.query("OUT#0", index=WORK).items == ()
        assert table.get(Key("NODE#c#n", "ENTRY#1")) == item("ENTRY#1", body="b")

    def test_pages_of_an_index_have_no_gap_with_equal_sort_keys(self, table: Table) -> None:
        for number in range(5):
            table.write(Put(item(f"ENTRY#{number}", gsi2pk="CASE#c", gsi2sk="same", body=str(number))))
        found: set[object] = set()
        start = None
        for _ in range(10):
            page = table.query("CASE#c", index=CASES, limit=2, start=start)
            found |= {each["body"] for each in page.items}
            start = page.next
            if start is None:
                break
        assert found == {"0", "1", "2", "3", "4"}


class TestConditions:
    def test_absent_holds_only_without_an_item(self, table: Table) -> None:
        table.write(Put(item(a=1), when=Absent()))
        with pytest.raises(Conflict):
            table.write(Put(item(a=2), when=Absent()))
        assert table.get(STATE) == item(a=1)

    def test_present_holds_only_with_an_item(self, table: Table) -> None:
        with pytest.raises(Conflict):
            table.write(Update(STATE, set={("a",): 1}, when=Present()))
        assert table.get(STATE) is None

    def test_equals_guards_a_version(self, table: Table) -> None:
        table.write(Put(item(version=1)))
        table.write(Put(item(version=2), when=Equals("version", 1)))
        with pytest.raises(Conflict):
            table.write(Put(item(version=2), when=Equals("version", 1)))

    def test_below_guards_a_watermark(self, table: Table) -> None:
        table.write(Put(item(at="2026-01")))
        table.write(Put(item(at="2026-02"), when=Below("at", "2026-02")))
        with pytest.raises(Conflict):
            table.write(Put(item(at="2026-02"), when=Below("at", "2026-02")))

    def test_any_of_holds_when_one_does(self, table: Table) -> None:
        same_case = AnyOf((Absent(), Equals("case", "c-1")))
        table.write(Put(item(case="c-1"), when=same_case))
        table.write(Put(item(case="c-1"), when=same_case))
        with pytest.raises(Conflict):
            table.write(Put(item(case="c-2"), when=AnyOf((Absent(), Equals("case", "c-2")))))

    def test_any_of_without_conditions_is_an_error(self, table: Table) -> None:
        with pytest.raises(ValueError, match="condition"):
            table.write(Put(item(), when=AnyOf(())))

    def test_deleting_a_missing_item_succeeds(self, table: Table) -> None:
        table.write(Delete(STATE))
        with pytest.raises(Conflict):
            table.write(Delete(STATE, when=Present()))

    def test_a_check_alone_writes_nothing(self, table: Table) -> None:
        table.write(Put(item(a=1)))
        table.write(Check(STATE, Equals("a", 1)))
        with pytest.raises(Conflict):
            table.write(Check(STATE, Equals("a", 2)))
        assert table.get(STATE) == item(a=1)


class TestUpdates:
    def test_set_remove_and_add_change_only_the_named_attributes(self, table: Table) -> None:
        table.write(Put(item(keep="k", gone="g", holders={"c-1": "t1", "c-2": "t2"}, version=4)))
        table.write(
            Update(
                STATE,
                set={("name",): "reserved word", ("holders", "c-3"): "t3"},
                remove=(("gone",), ("holders", "c-1")),
                add={"version": 1, "new": -2},
            )
        )
        expected = item(keep="k", name="reserved word", holders={"c-2": "t2", "c-3": "t3"}, version=5, new=-2)
        assert table.get(STATE) == expected

    def test_an_update_creates_a_missing_item(self, table: Table) -> None:
        table.write(Update(STATE, add={"n": 1}))
        assert table.get(STATE) == item(n=1)

    def test_removing_a_missing_attribute_succeeds(self, table: Table) -> None:
        table.write(Put(item(holders={})))
        table.write(Update(STATE, remove=(("holders", "c-1"), ("nothing",))))
        assert table.get(STATE) == item(holders={})

    def test_setting_inside_a_missing_map_is_rejected(self, table: Table) -> None:
        table.write(Put(item(a=1)))
        with pytest.raises(Misconfigured):
            table.write(Update(STATE, set={("holders", "c-1"): "t"}))
        assert table.get(STATE) == item(a=1)

    def test_adding_to_a_text_is_rejected(self, table: Table) -> None:
        table.write(Put(item(a="text")))
        with pytest.raises(Misconfigured):
            table.write(Update(STATE, add={"a": 1}))

    @pytest.mark.parametrize(
        "update",
        [
            Update(STATE),
            Update(STATE, set={("a",): {}, ("a", "b"): 1}),
            Update(STATE, set={("a",): 1}, add={"a": 1}),
        ],
    )
    def test_an_update_without_changes_or_with_overlaps_is_an_error(self, table: Table, update: Update) -> None:
        with pytest.raises(ValueError, match="update"):
            table.write(update)


class TestTransactions:
    def writes(self, version: int) -> list[Write]:
        return [
            Put(item(version=version + 1), when=Equals("version", version) if version else Absent()),
            Put(item(f"ENTRY#{version}"), when=Absent()),
            Update(Key("CONTROL", "C"), add={"version": 1}),
            Delete(Key("BAD", "n")),
        ]

    def test_all_writes_are_made(self, table: Table) -> None:
        table.write(Put(item("n", "BAD")))
        table.transact(self.writes(0))
        assert table.get(STATE) == item(version=1)
        assert table.get(Key("CONTROL", "C")) == item("C", "CONTROL", version=1)
        assert table.get(Key("BAD", "n")) is None

    def test_none_is_made_when_one_condition_fails(self, table: Table) -> None:
        table.transact(self.writes(0))
        with pytest.raises(Conflict):
            table.transact([Put(item("OTHER")), *self.writes(0)])
        assert table.get(Key("NODE#c#n", "OTHER")) is None
        assert table.get(Key("CONTROL", "C")) == item("C", "CONTROL", version=1)

    def test_a_failed_check_prevents_all_writes(self, table: Table) -> None:
        with pytest.raises(Conflict):
            table.transact([Check(Key("CONTROL", "C"), Present()), Put(item())])
        assert table.get(STATE) is None

    def test_the_same_token_with_the_same_writes_writes_once(self, table_with_tokens: Table) -> None:
        table = table_with_tokens
        token = fresh("a token that is longer than the thirty-six characters that are allowed")
        table.transact(self.writes(0), token)
        table.transact(self.writes(0), token)
        assert table.get(Key("CONTROL", "C")) == item("C", "CONTROL", version=1)

    def test_the_same_token_with_other_writes_is_rejected(self, table_with_tokens: Table) -> None:
        token = fresh("token")
        table_with_tokens.transact(self.writes(0), token)
        with pytest.raises(Misconfigured):
            table_with_tokens.transact(self.writes(1), token)

    def test_a_transaction_without_writes_is_accepted(self, table: Table) -> None:
        table.transact([Put(item("EMPTY"))])
        table.transact([])
        assert table.get(Key("NODE#c#n", "EMPTY")) == item("EMPTY")

    def test_a_transaction_has_at_most_100_writes(self, table: Table) -> None:
        many: list[Write] = [Put(item(f"{number:03d}", "MANY")) for number in range(101)]
        table.transact(many[:100])
        assert len(table.query("MANY").items) == 100
        with pytest.raises(ValueError, match="101"):
            table.transact(many)

    def test_an_item_over_400_kb_is_refused_with_the_whole_transaction(self, table: Table) -> None:
        small, large = item("A", text="a"), item("B", text="x" * 410 * 1024)
        with pytest.raises(Misconfigured):
            table.transact([Put(small), Put(large)])
        assert table.get(Key("NODE#c#n", "A")) is None

    def test_an_update_that_grows_an_item_over_400_kb_is_refused(self, table: Table) -> None:
        table.write(Put(item(text="x" * 390 * 1024)))
        with pytest.raises(Misconfigured):
            table.write(Update(STATE, set={("more",): "x" * 20 * 1024}))

    def test_two_writes_of_one_item_are_an_error(self, table: Table) -> None:
        with pytest.raises(ValueError, match="writes"):
            table.transact([Put(item(a=1)), Update(STATE, set={("a",): 2})])


texts = st.text(st.sampled_from("ab\u00e4\U0001f600"), max_size=3)
numbers = st.integers(-3, 3)
# moto cannot compare a number with a text by order, so `text` and `number` hold what their names say
items = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "text": texts,
        "number": numbers,
        "name": texts | numbers | st.booleans() | st.none() | st.just([1]),
    },
)
leaves = (
    st.just(Absent())
    | st.just(Present())
    | st.builds(Equals, st.sampled_from(["text", "number", "name"]), texts | numbers)
    | st.builds(Below, st.just("text"), texts)
    | st.builds(Below, st.just("number"), numbers)
)
conditions: st.SearchStrategy[Condition] = st.recursive(
    leaves, lambda inner: st.builds(AnyOf, st.lists(inner, min_size=1, max_size=3).map(tuple)), max_leaves=4
)


paths = st.sampled_from([("holders",), ("holders", "a"), ("holders", "b"), ("holders", "a", "deep"), ("name",)])
holders = st.none() | st.fixed_dictionaries(
    {},
    optional={
        # moto breaks on a REMOVE below a text
        "holders": st.fixed_dictionaries({}, optional={"a": st.just({"deep": 1}), "b": texts}),
        "number": numbers,
        "name": texts,
    },
)
updates = st.builds(
    Update,
    st.just(STATE),
    set=st.dictionaries(paths, texts | numbers, max_size=2),
    remove=st.lists(paths, max_size=1).map(tuple),
    add=st.dictionaries(st.sampled_from(["number", "name"]), numbers, max_size=1),
)


class TestAgreement:
    @settings(max_examples=100, deadline=None)
    @given(before=items, condition=conditions)
    def test_fake_and_dynamodb_agree_on_every_condition(
        self, dynamo: DynamoTable, before: Item | None, condition: Condition
    ) -> None:
        verdicts = []
        fake = FakeTable()
        for each in (fake, dynamo):
            each.write(Delete(STATE) if before is None else Put({**item(), **before}))
            try:
                each.write(Put(item(won=True), when=condition))
            except Conflict:
                verdicts.append(False)
            else:
                verdicts.append(True)
        assert verdicts[0] == verdicts[1]
        assert fake.get(STATE) == dynamo.get(STATE)

    @pytest.mark.skipif(not ON_MOTO, reason="MiniStack forgives a REMOVE below no mapping, AWS and moto do not")
    @settings(max_examples=100, deadline=None)
    @given(before=holders, update=updates)
    def test_fake_and_dynamodb_agree_on_every_update(
        self, dynamo: DynamoTable, before: Item | None, update: Update
    ) -> None:
        outcomes: list[tuple[type[Exception] | None, Item | None]] = []
        for each in (FakeTable(), dynamo):
            each.write(Delete(STATE) if before is None else Put({**item(), **before}))
            try:
                each.write(update)
            except (ValueError, Misconfigured) as error:
                outcomes.append((type(error), None))  # moto leaves a failed update half made
            else:
                outcomes.append((None, each.get(STATE)))
        assert outcomes[0] == outcomes[1]
