"""Conditions, updates and ranges as DynamoDB expressions."""

from __future__ import annotations

import pytest

from faultbridge.adapters.aws.dynamodb import (
    Placeholders,
    condition_expression,
    range_expression,
    sort_key_bounds,
    transaction_part,
    write_arguments,
)
from faultbridge.model.storage.writes import (
    Absent,
    AnyOf,
    Below,
    Check,
    Delete,
    Equals,
    Key,
    Present,
    Put,
    Update,
    Write,
)

KEY = Key("P", "S")
TYPED_KEY = {"pk": {"S": "P"}, "sk": {"S": "S"}}


def test_conditions_use_placeholders_for_all_names_and_values() -> None:
    placeholders = Placeholders()
    expression = condition_expression(
        AnyOf((Absent(), Equals("name", "x"), AnyOf((Below("n", 1), Present())))), placeholders
    )
    assert expression == "attribute_not_exists(#0) OR #1 = :0 OR #2 < :1 OR attribute_exists(#0)"
    assert placeholders.arguments() == {
        "ExpressionAttributeNames": {"#0": "pk", "#1": "name", "#2": "n"},
        "ExpressionAttributeValues": {":0": {"S": "x"}, ":1": {"N": "1"}},
    }


def test_an_update_has_each_clause_once() -> None:
    update = Update(KEY, set={("a",): 1, ("h", "c.d"): "x"}, remove=(("b",), ("h", "e")), add={"v": 1}, when=Present())
    assert write_arguments(update) == {
        "Key": TYPED_KEY,
        "UpdateExpression": "SET #0 = :0, #1.#2 = :1 REMOVE #3, #1.#4 ADD #5 :2",
        "ConditionExpression": "attribute_exists(#6)",
        "ExpressionAttributeNames": {
            "#0": "a", "#1": "h", "#2": "c.d", "#3": "b", "#4": "e", "#5": "v", "#6": "pk",
        },
        "ExpressionAttributeValues": {":0": {"N": "1"}, ":1": {"S": "x"}, ":2": {"N": "1"}},
    }  # fmt: skip


def test_a_write_without_a_condition_has_no_expression() -> None:
    assert write_arguments(Put({"pk": "P", "sk": "S"})) == {"Item": TYPED_KEY}
    assert write_arguments(Delete(KEY)) == {"Key": TYPED_KEY}


def test_each_kind_of_write_has_a_name_in_a_transaction() -> None:
    writes: list[Write] = [Put({"pk": "P", "sk": "S"}), Delete(KEY), Update(KEY, add={"n": 1}), Check(KEY, Present())]
    assert [transaction_part(write) for write in writes] == ["Put", "Delete", "Update", "ConditionCheck"]


@pytest.mark.parametrize(
    ("prefix", "after", "up_to", "bounds"),
    [
        ("", None, None, None),
        ("E#", None, None, ("E#", "E#\U0010ffff")),
        ("", "a", None, ("a\0", "\U0010ffff")),
        ("", None, "b", ("", "b")),
        ("E#", "E#5", "E#7", ("E#5\0", "E#7")),
        ("E#", "A", "Z", ("E#", "E#\U0010ffff")),
    ],
)
def test_all_bounds_limit_the_sort_key_together(
    prefix: str, after: str | None, up_to: str | None, bounds: tuple[str, str] | None
) -> None:
    assert sort_key_bounds(prefix, after, up_to) == bounds


def test_a_range_never_contains_an_empty_key() -> None:
    placeholders = Placeholders()
    assert range_expression(("pk", "P"), "sk", ("", "b"), placeholders) == "#0 = :0 AND #1 <= :1"
