"""A change of any proven attribute of any stored item is found by `verify`, which names the item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from faultbridge.domain.faults import Component, ComponentType
from faultbridge.ledger.stream_seal import entry_position
from faultbridge.ledger.verify import Break
from faultbridge.simulation.fakes.stored_values import copied_item
from faultbridge.storage.codec import pack
from faultbridge.storage.item_kinds import kind_of
from faultbridge.storage.proof import ItemKind, Proof
from faultbridge.storage.writes import Item, Key, Packed, Put
from tests.archive.world import N1, ArchiveWorld
from tests.builders import fault

STEPS = ("note", "fault", "worse fault", "job", "devices", "rollup", "anchor", "seal")
GPU = Component(ComponentType.GPU, pci="0000:c1:00", uuid="GPU-1", serial="1653")
Path = tuple[str, ...]


def play(steps: list[str]) -> ArchiveWorld:
    """Return a world in which these things happened to a node, one per minute."""
    world = ArchiveWorld()
    world.record_history(nodes=2, notes=1)
    for number, step in enumerate(steps):
        world.pass_time(minutes=1)
        match step:
            case "note":
                world.note(N1, f"note {number}")
            case "fault":
                world.observe_faults(N1, fault("xid.92", GPU, evidence=f"raw {number}"))
            case "worse fault":
                world.observe_faults(N1, fault("xid.79", GPU, evidence=f"raw {number}"))
            case "job":
                world.note(N1, "job", data={"kind": "operator", "text": "job", "job_id": f"j-{number}"})
            case "devices":
                seen = {"uuid": f"GPU-{number}", "serial": "1653", "pci": "0000:c1:00", "index": 0, "type": "gpu"}
                facts = {"instance_id": "i-0aaaaaaaaaaaaaaa1", "devices": [seen]}
                world.note(N1, "devices", data={"kind": "devices", "text": "seen", "facts": facts})
            case "rollup":
                world.rollup("train-a")
            case "anchor":
                world.publish()
                world.archive_schedule()
            case "seal":
                world.publish()
                world.seal_day()
    return world


def proven(item: Item) -> Iterator[Path]:
    """Yield the path of each proven attribute of an item."""
    kind = kind_of(Key(str(item["pk"]), str(item["sk"])))
    assert kind is not None
    for name, value in item.items():
        if isinstance(value, dict) and any(one.startswith(f"{name}.") for one in kind.proofs):
            yield from ((name, inner) for inner in value if is_proven(kind, f"{name}.{inner}"))
        elif is_proven(kind, name):
            yield (name,)


def is_proven(kind: ItemKind, name: str) -> bool:
    return name not in {"pk", "sk"} and kind.proof(name) is not Proof.UNPROVEN


def other_values(value: Any) -> list[Any]:
    """Return values that differ from a value, some of another type."""
    match value:
        case bool():
            return [not value, "x"]
        case int():
            return [value + 1, value - 1, "x"]
        case str():
            return [f"{value}x", value[1:], 7, None] if value else ["x"]
        case dict():
            return [{**value, name: one} for name in value for one in other_values(value[name])]
        case list():
            return [[*value, "x"], "x"]
        case _:
            return ["x", 1, *([Packed(value[1:]), Packed(value[:-1]), pack({})] if isinstance(value, Packed) else [])]


def changed(item: Item, path: Path, change: Any) -> Item:
    """Return an item with one attribute set, or removed when the change is `...`."""
    altered: Any = copied_item(item)
    inner = altered
    for name in path[:-1]:
        inner = inner[name]
    if change is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = change
    return altered


def names(found: Break, item: Item) -> bool:
    """Return whether a break names an item: by its key, or by the position of an entry or of a head."""
    pk, sk = str(item["pk"]), str(item["sk"])
    stream = "/".join(pk.split("#")[1:3])
    position = entry_position(sk)
    if position is not None:
        return found.stream == stream and (found.epoch, found.sequence) == position
    return found.object == f"{pk} {sk}" or (sk in {"STATE", "ANCHOR"} and found.stream == stream)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(STEPS), max_size=8), st.data())
def test_a_change_of_any_proven_attribute_of_any_item_is_named(steps: list[str], data: st.DataObject) -> None:
    world = play(steps)
    assert world.verify().breaks == []
    items = [item for item in world.table.items() if any(proven(item))]
    item = data.draw(st.sampled_from(items), "item")
    path = data.draw(st.sampled_from(sorted(proven(item))), "attribute")
    value: Any = item
    for name in path:
        value = value[name]
    kind = kind_of(Key(str(item["pk"]), str(item["sk"])))
    assert kind is not None
    removable = path[0] not in kind.may_lack.split()
    change = data.draw(st.sampled_from([*other_values(value), *([...] if removable else [])]), "change")
    world.table.write(Put(changed(item, path, change)))
    found = world.verify().breaks
    assert any(names(one, item) for one in found), found


def test_every_kind_of_item_with_a_proven_attribute_occurs_in_these_histories() -> None:
    world = play(["fault", "worse fault", "job", "devices", "rollup", "anchor", "seal", "note"])
    kinds = [kind_of(Key(str(item["pk"]), str(item["sk"]))) for item in world.table.items()]
    occurring = {kind.name for kind in kinds if kind is not None and set(kind.proofs.values()) - {Proof.UNPROVEN}}
    assert occurring == {
        "entry", "node state", "cluster state", "case", "unhealthy node", "queued case", "node in the node list",
        "seal of a stream", "job link", "device link", "cluster registration", "sighting of a device",
        "device with a fault", "devices seen by an entry",
    }  # fmt: skip
