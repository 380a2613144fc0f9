"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from collections.abc import Callable

from faultbridge.decode.data import load_catalog
from faultbridge.model.fault_enums import Action
from faultbridge.model.storage.writes import Put
from tests.scenarios.incidents.incidents import RACK, world_of
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import Call

CATALOG = load_catalog()

SUPPORT = "xid.54"


def world_with_catalog(**others) -> World:
    return world_of(16, catalog=CATALOG, **others)


def fail(world: World, node: int, code: str = SUPPORT, action: Action | None = None) -> None:
    world.fault(node, code, action=action)


def commits(call: Call, step: str) -> bool:
    """Return whether a call commits an entry of this step."""
    writes = call.argument if call.name == "table.transact" else ()
    return any(isinstance(one, Put) and f'"step":"{step}"' in str(one.item.get("body")) for one in writes)


def before_the_intent_of(world: World, act: Callable[[], object]) -> None:
    """Act once, at the moment when the next intent is about to be committed."""
    before_the_next(world, "intent", act)


def before_the_next(world: World, step: str, act: Callable[[], object]) -> None:
    """Act once, at the moment when the next entry of this step is about to be committed."""

    def hook(call: Call) -> None:
        if commits(call, step):
            world.seam.before = lambda _: None
            act()

    world.seam.before = hook


def begin_incident(world: World) -> None:
    for node in RACK:
        world.fault(node, "net.link_down", source="link-state")
    world.correlate.update_incidents(CLUSTER)
    assert world.control().holds
