"""Two writers of the registry at once: each node is counted, and an instance or a name leads to one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import Alias, AliasRow, Instance
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Key, Put
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.entrypoints.inventory import wire_inventory
from faultbridge.serve.wiring.services import wire_registration, wire_retirement
from tests.builders import KEY
from tests.races import run_before_write, writes_to
from tests.registry.world import instance
from tests.world import World

OTHER = KEY._replace(node="b")
ORDER = OperatorOrder("ada")
NEW = "i-0ffffffffffffff01"
CONFIG = keys.cluster_config(KEY.cluster)
NAME = Alias("name", f"{KEY.cluster}/ip-10-0-0-9")


def add(world: World, name: str, instance_id: str | None = None) -> None:
    wire_registration(world.app).add_node(KEY.cluster, NewNode(name, instance_id))


def retire(world: World, name: str) -> None:
    wire_retirement(world.app).retire(KEY._replace(node=name), ORDER)


def attach(world: World, *names: str, instance_id: str = NEW) -> None:
    config = wire_registration(world.app).cluster(KEY.cluster)
    wire_inventory(world.app).replacement_detection.attach_replacement(config, "a", Instance(instance_id, names))


def name_other(world: World) -> None:
    """Let a name lead to the other node, as the inventory does when its instance gets the name."""
    world.ports.clock.advance(1)
    row = AliasRow(OTHER, instance(world, "b"), world.ports.clock.now())
    world.ports.table.write(Put(items.alias_item(NAME, row, world.ports.clock.now())))


def owner(world: World, alias: Alias) -> tuple[str, bool]:
    found: Any = world.ports.table.get(keys.alias(*alias))
    row = items.read_alias(found)
    return row.key.node, row.valid_to is None


def before_write_of(world: World, key: Key, rival: Callable[[], object]) -> None:
    run_before_write(world.ports.table.seam, writes_to(key), rival)


@pytest.mark.parametrize(("act", "rival", "expected"), [(add, add, 4), (retire, add, 2), (retire, retire, 0)])
def test_nodes_that_are_added_and_removed_at_once_are_all_counted(
    world: World, act: Callable[[World, str], None], rival: Callable[[World, str], None], expected: int
) -> None:
    names = {add: ("c", "d"), retire: ("a", "b")}
    before_write_of(world, CONFIG, lambda: rival(world, names[rival][1]))
    act(world, names[act][0])
    assert wire_registration(world.app).cluster(KEY.cluster).expected == expected


def test_a_node_that_is_retired_twice_is_counted_once(world: World) -> None:
    for _ in range(2):
        retire(world, "a")
    assert wire_registration(world.app).cluster(KEY.cluster).expected == 1


def add_new(world: World) -> None:
    add(world, "c", NEW)


@pytest.mark.parametrize(("act", "rival", "node"), [(add_new, attach, "a"), (attach, add_new, "c")])
def test_an_instance_that_another_node_gets_at_once_backs_only_that_node(
    world: World, act: Callable[[World], None], rival: Callable[[World], None], node: str
) -> None:
    alias = Alias("instance", NEW)
    before_write_of(world, keys.alias(*alias), lambda: rival(world))
    with pytest.raises(Rejected, match="alias_taken"):
        act(world)
    assert owner(world, alias) == (node, True)


def replace_instance(world: World) -> None:
    attach(world, instance_id="i-0ffffffffffffff02")


def retire_first(world: World) -> None:
    retire(world, "a")


@pytest.mark.parametrize("act", [replace_instance, retire_first])
@pytest.mark.parametrize("during", [False, True])
def test_a_name_that_another_node_has_got_is_not_taken_from_it_when_its_former_node_loses_it(
    world: World, act: Callable[[World], None], *, during: bool
) -> None:
    attach(world, "ip-10-0-0-9")
    assert owner(world, NAME) == ("a", True)
    if during:
        before_write_of(world, keys.alias(*NAME), lambda: name_other(world))
    else:
        name_other(world)
    act(world)
    assert owner(world, NAME) == ("b", True)
