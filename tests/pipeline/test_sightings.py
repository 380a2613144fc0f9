"""Sightings: which devices of a health snapshot are new in the instance of a node."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.fold.fold import MAX_CUSTODY, MAX_SIGHTINGS, record_sightings, take_custody
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from tests.builders import NOON, after, arrival, fault, node

CARD = Component(ComponentType.GPU, pci="0000:c1:00", uuid="GPU-1", serial="16")


def cards(count: int) -> tuple[Component, ...]:
    """Return devices with different names in different slots."""
    return tuple(replace(CARD, uuid=f"GPU-{number}", pci=f"0000:{number:02x}:00") for number in range(count))


def snapshot(*devices: Component, at: datetime = NOON, **others: IncarnationMatch) -> Arrival:
    return arrival(Snapshot("nvidia-smi-xml", {}, devices=devices), at, **others)


def seen(state: NodeState, *arrivals: Arrival) -> list[list[str | None]]:
    """Return the UUIDs of the devices that each change records."""
    changes = record_sightings(state, arrivals, oldest=after(hours=-1)).changes
    return [[one["uuid"] for one in change.facts["devices"]] for change in changes]


@pytest.mark.parametrize(
    ("device", "new"),
    [
        (CARD, False),
        (replace(CARD, pci=None), False),
        (replace(CARD, serial="17"), False),
        (replace(CARD, pci="0000:53:00"), True),
        (replace(CARD, uuid="GPU-2"), True),
        (replace(CARD, uuid="GPU-2", pci=None), True),
        (replace(CARD, uuid=None), True),
        (replace(CARD, uuid=None, serial=None), False),
    ],
)
def test_a_device_is_new_if_the_instance_never_reported_it_in_this_slot(device: Component, new: bool) -> None:
    custody, _ = take_custody((), 1, [CARD])
    kept, found = take_custody(custody, 1, [device])
    assert found == ((device,) if new else ())
    assert len(kept) == len(custody) + new


def test_a_new_instance_has_no_device_of_the_former_one() -> None:
    custody, _ = take_custody((), 1, [CARD])
    assert take_custody(custody, 2, [CARD]) == (("2|GPU-1|0000:c1:00",), (CARD,))
    assert take_custody(("12|GPU-1|0000:c1:00",), 1, [CARD])[1] == (CARD,)


def test_an_entry_records_eight_devices_and_the_next_snapshot_the_others() -> None:
    custody, first = take_custody((), 1, cards(MAX_SIGHTINGS + 1))
    assert first == cards(MAX_SIGHTINGS)
    assert take_custody(custody, 1, cards(MAX_SIGHTINGS + 1))[1] == cards(MAX_SIGHTINGS + 1)[-1:]


def test_the_newest_sightings_are_kept() -> None:
    old = tuple(f"1|old-{number}|" for number in range(MAX_CUSTODY))
    custody, _ = take_custody(old, 1, [CARD])
    assert custody == (*old[1:], "1|GPU-1|0000:c1:00")


def test_the_first_snapshot_with_new_devices_is_recorded() -> None:
    state = node()
    assert seen(state, snapshot(), snapshot(CARD), snapshot(*cards(2))) == [["GPU-1"]]
    recorded = record_sightings(state, [snapshot(CARD)], oldest=NOON)
    assert recorded.weight == 3
    assert recorded.changes[0].reason == "1 device first seen in i-0aaaaaaaaaaaaaaa1"
    assert seen(recorded.state, snapshot(CARD)) == []
    two = record_sightings(state, [snapshot(*cards(2))], oldest=NOON)
    assert (two.weight, two.changes[0].reason) == (5, "2 devices first seen in i-0aaaaaaaaaaaaaaa1")


@pytest.mark.parametrize(
    "ignored",
    [
        snapshot(CARD, incarnation=IncarnationMatch.UNKNOWN),
        snapshot(CARD, incarnation=IncarnationMatch.EARLIER),
        snapshot(CARD, at=after(hours=-1, milliseconds=-1)),
        arrival(fault(component=CARD)),
    ],
)
def test_only_a_recent_snapshot_that_is_certainly_of_the_instance_is_recorded(ignored: Arrival) -> None:
    assert seen(node(), ignored) == []
    assert seen(node(), snapshot(CARD, at=after(hours=-1))) == [["GPU-1"]]
    assert seen(node(incarnation=None), snapshot(CARD)) == []


@pytest.mark.parametrize(("minutes", "recorded"), [(-1, False), (0, True), (1, True)])
def test_a_snapshot_that_a_later_one_of_its_source_overtook_is_not_recorded(minutes: int, recorded: bool) -> None:
    state = node(snapshots={"nvidia-smi-xml": NOON})
    assert bool(seen(state, snapshot(CARD, at=after(minutes=minutes)))) is recorded


def test_a_snapshot_without_a_list_shows_the_devices_that_it_checked() -> None:
    checked = arrival(Snapshot("dcgm-health", {"xid.48": (CARD,), "xid.79": (CARD,)}))
    assert seen(node(), checked) == [["GPU-1"]]
