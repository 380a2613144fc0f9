"""The claim of a successor: a name or instance id belongs to another node only while it is valid there."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.model.nodes import Alias, AliasRow, NodeKey
from faultbridge.model.storage import items
from faultbridge.repair.successor.launch import belongs_to_other
from tests.builders import KEY, NOON, node

OTHER = NodeKey(KEY.cluster, "node-9")


@pytest.mark.parametrize(
    ("owner", "valid_to", "belongs"),
    [(OTHER, None, True), (OTHER, NOON, False), (KEY, None, False), (KEY, NOON, False)],
    ids=["of another node", "formerly of another node", "of this node", "formerly of this node"],
)
def test_an_alias_belongs_to_another_node_only_while_it_is_valid_there(
    owner: NodeKey, valid_to: datetime | None, belongs: bool
) -> None:
    row = AliasRow(owner, "i-1", NOON, valid_to)
    assert belongs_to_other(items.alias_item(Alias("name", "train-a/ip-1"), row, NOON), node()) is belongs
