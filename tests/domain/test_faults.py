"""Component names: one device has one canonical name."""

from __future__ import annotations

import pytest

from faultbridge.model.conditions import component_key, counted_at, identity, parse_component
from faultbridge.model.fault_enums import Action, ComponentType
from faultbridge.model.faults import Component, Snapshot, normalize_pci
from tests.builders import after


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("00000000:53:00.0", "0000:53:00"),
        ("0000:53:00", "0000:53:00"),
        ("53:00.0", "0000:53:00"),
        ("PCI:0000:C1:00", "0000:c1:00"),
        ("00000008:06:00.0", "0008:06:00"),
        ("0000:53:00.1", "0000:53:00.1"),
        ("000d:00:00", "000d:00:00"),
    ],
)
def test_every_spelling_of_a_pci_address_has_one_canonical_form(written, canonical) -> None:
    assert normalize_pci(written) == canonical


@pytest.mark.parametrize("written", ["", "53", "xx:yy", "0000:53:00:11:22"])
def test_an_invalid_pci_address_is_refused(written) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is Python's own
        normalize_pci(written)


def test_a_component_gets_the_other_identifiers_of_its_device() -> None:
    known = Component(ComponentType.GPU, pci="0000:53:00", uuid="GPU-1", index=3, serial="16")
    assert identity(Component(ComponentType.GPU, index=3), [known]) == known
    assert identity(Component(ComponentType.GPU, uuid="GPU-1"), [known]) == known


def test_an_equal_serial_number_does_not_identify_a_device() -> None:
    known = Component(ComponentType.GPU, pci="0000:53:00", serial="16")
    other = Component(ComponentType.GPU, serial="16")
    assert identity(other, [known]) == other


@pytest.mark.parametrize(
    ("component", "found"),
    [
        (Component(ComponentType.NVLINK, pci="0000:53:00"), False),
        (Component(ComponentType.GPU, pci="0000:54:00", uuid="GPU-1", index=0), False),
        (Component(ComponentType.GPU, uuid="GPU-2", index=0), False),
        (Component(ComponentType.GPU, index=1), False),
        (Component(ComponentType.GPU), False),
        (Component(ComponentType.GPU, pci="0000:53:00", uuid="GPU-9"), True),
        (Component(ComponentType.GPU, uuid="GPU-1", index=9), True),
    ],
)
def test_a_device_is_recognized_by_its_address_else_by_its_uuid_else_by_its_index(
    component: Component, found: bool
) -> None:
    known = Component(ComponentType.GPU, pci="0000:53:00", uuid="GPU-1", index=0, serial="16", name="known")
    assert (identity(component, [known]).serial == "16") is found


def test_a_component_keeps_what_the_device_list_does_not_state() -> None:
    given = Component(ComponentType.GPU, "0000:53:00", "GPU-1", index=7, serial="16", link=2, name="given")
    assert identity(given, [Component(ComponentType.GPU, "0000:53:00")]) == given
    known = Component(ComponentType.GPU, "0000:53:00", "GPU-2", index=0, serial="17", link=5, name="known")
    found = identity(given, [known])
    assert (found.uuid, found.index, found.serial) == ("GPU-2", 0, "17")
    assert (found.link, found.name) == (2, "given")


@pytest.mark.parametrize(
    ("component", "key"),
    [
        (Component(ComponentType.NODE, pci="0000:53:00"), "node"),
        (Component(ComponentType.GPU, "0000:53:00", "GPU-1", 0, "16"), "gpu/pci=0000:53:00"),
        (Component(ComponentType.GPU, None, "GPU-1", 0, "16"), "gpu/uuid=GPU-1"),
        (Component(ComponentType.GPU, None, None, 0, "16"), "gpu/index=0"),
        (Component(ComponentType.NIC, serial="16", name="eth0"), "nic/name=eth0"),
        (Component(ComponentType.GPU, serial="16"), "gpu/serial=16"),
        (Component(ComponentType.GPU), "gpu/any"),
        (Component(ComponentType.NVLINK, index=0, link=0), "nvlink/index=0/link=0"),
    ],
)
def test_a_component_has_the_name_of_its_most_certain_identifier(component: Component, key: str) -> None:
    assert component_key(component) == key


@pytest.mark.parametrize(
    "component",
    [
        Component(ComponentType.GPU, pci="0000:53:00"),
        Component(ComponentType.GPU, uuid="GPU-1"),
        Component(ComponentType.NVLINK, index=0, link=0),
    ],
)
def test_the_name_of_a_device_is_read_back(component: Component) -> None:
    assert parse_component(component_key(component)) == component
    assert parse_component("node") is parse_component("nic/name=eth0") is None


def test_observations_are_counted_by_hour_for_a_day() -> None:
    hours = {"2026-02-02T12": 1, "2026-02-02T13": 2, "2026-02-03T11": 3}
    assert counted_at(hours, after(minutes=59), 4) == {"2026-02-02T13": 2, "2026-02-03T11": 3, "2026-02-03T12": 4}
    assert counted_at(hours, after(hours=-1), 4) == {**hours, "2026-02-03T11": 7}


@pytest.mark.parametrize(("part", "key"), [("", "dcgm-health"), ("pcie", "dcgm-health#pcie")])
def test_each_check_of_a_source_has_a_watermark_of_its_own(part: str, key: str) -> None:
    assert Snapshot("dcgm-health", {}, part=part).reporter_key == key


def test_the_link_is_part_of_a_component_key() -> None:
    link = Component(ComponentType.NVLINK, pci="0000:53:00", link=4)
    assert component_key(link) == "nvlink/pci=0000:53:00/link=4"


def test_every_action_but_restarting_an_application_needs_a_case() -> None:
    assert {action for action in Action if not action.opens_case} == {Action.NONE, Action.RESTART_APP}
