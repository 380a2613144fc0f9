"""Packed items are small, and those that other versions stored stay readable."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import pack, unpack
from faultbridge.model.storage.writes import Packed
from tests.bench.calls import WARNING
from tests.bench.dynamodb_meter import WRITE_UNIT
from tests.bench.node_minutes import nvidia_smi
from tests.sim.fakes.item_size import item_bytes
from tests.world import XID_31, XID_79, World

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
