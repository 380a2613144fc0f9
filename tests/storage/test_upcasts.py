"""Stored items: their schema versions, packed attributes, and values of another release."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from faultbridge.model.cases import Case
from faultbridge.model.errors import Misconfigured
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump, pack, unpack
from faultbridge.model.storage.items import LATEST, STEPS, stored_value, upcast
from faultbridge.model.storage.writes import Packed, ReadItem
from tests.bench.calls import WARNING
from tests.bench.dynamodb_meter import WRITE_UNIT
from tests.bench.node_minutes import nvidia_smi
from tests.builders import KEY, NOON, node
from tests.sim.fakes.item_size import item_bytes
from tests.world import XID_31, XID_79, World

STEPS_TO_3 = {
    1: lambda item: {**item, "state": {**item["state"], "name": item["state"]["title"]}},
    2: lambda item: {**item, "state": {"name": item["state"]["name"].upper()}},
}


def test_an_item_is_converted_by_every_step_up_to_the_latest_version():
    assert upcast({"schema": 1, "state": {"title": "n"}}, STEPS_TO_3, 3) == {"schema": 3, "state": {"name": "N"}}
    assert upcast({"schema": 2, "state": {"name": "n"}}, STEPS_TO_3, 3) == {"schema": 3, "state": {"name": "N"}}


def test_an_item_of_the_latest_version_is_unchanged():
    item = {"schema": LATEST, "state": {}}
    assert upcast(item) is item


def test_an_item_that_was_read_is_decoded_once():
    state = node()
    item = ReadItem(items.state_item(state, NOON))
    assert items.read_state(KEY, item) is items.read_state(KEY, item)
    assert items.read_state(KEY, dict(item)) is not items.read_state(KEY, item)
    assert items.read_state(KEY, item) == items.read_state(KEY, dict(item)) == state


def test_an_item_of_a_newer_release_is_refused():
    with pytest.raises(Misconfigured, match="newer release"):
        upcast({"pk": "NODE#a#b", "schema": LATEST + 1})


def test_every_earlier_version_has_a_step():
    assert set(STEPS) == set(range(1, LATEST))


VALUE = {"key": {"cluster": "train-a", "node": "n0"}, "status": "healthy"}
STORED = Packed(b"\x01" + base64.b85decode("c=?MPrzFEtkdzc9X6ET8BFd9I1C$~FmfdRsTiFxa"))


def test_the_state_of_a_node_with_two_faults_and_eight_gpus_costs_one_write_unit() -> None:
    world = World(nodes=("ip-10-0-123-45",), mode="observe", repair_owner="observe")
    node = NodeKey("train-a", "ip-10-0-123-45")
    report = nvidia_smi(0).decode()
    for text, source in ((report, "nvidia-smi-xml"), *((line, "kernel-log") for line in (XID_79, WARNING, XID_31))):
        world.outcomes(world.message(text, source=source, node=node.node))
    row = world.ports.table.get(keys.node_state(node))
    assert row is not None
    state = items.read_state(node, row)
    assert (len(state.conditions), len(state.devices)) == (2, 8)
    assert item_bytes(row) <= WRITE_UNIT


def test_a_stored_item_is_read() -> None:
    assert unpack(dict[str, Any], STORED) == VALUE


def test_equal_values_are_stored_equally_and_with_the_current_dictionary() -> None:
    assert pack(VALUE) == STORED


def test_an_item_that_needs_a_later_dictionary_is_refused() -> None:
    with pytest.raises(ValueError, match="needs dictionary 7 of a later version"):
        unpack(dict[str, Any], Packed(b"\x07" + STORED[1:]))


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
