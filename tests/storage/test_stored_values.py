"""Stored values of another release are refused in one line that names the item."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.model.cases import Case
from faultbridge.model.errors import Misconfigured
from faultbridge.model.storage import items
from faultbridge.model.storage.codec import dump, pack, unpack
from faultbridge.model.storage.items import stored_value
from faultbridge.model.storage.writes import Packed
from tests.builders import KEY, NOON, node


@pytest.mark.parametrize(
    "value", [{}, {"rung": "replace"}, None, "text", pack({})[:-1], Packed(), {"id": "c-1", "status": "unknown"}]
)
def test_a_value_in_another_form_is_refused_and_its_item_is_named(value: object) -> None:
    row = {"pk": "CASE#c-1", "sk": "CASE", "schema": 1, "case": value}
    with pytest.raises(Misconfigured, match="Case in CASE#c-1 CASE cannot be read") as refused:
        stored_value(Case, row, "case")
    assert "\n" not in str(refused.value)


def test_the_state_of_a_node_is_stored_packed_and_read_packed_or_not() -> None:
    row = items.state_item(node(), NOON)
    assert unpack(dict[str, Any], row["state"]) == dump(node())
    assert items.read_state(KEY, row) == items.read_state(KEY, {**row, "state": dump(node())}) == node()
