"""Component names: one device has one canonical name."""

from __future__ import annotations

import pytest

from faultbridge.domain.conditions import component_key, identity
from faultbridge.domain.faults import Action, Component, ComponentType, normalize_pci


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


def test_the_link_is_part_of_a_component_key() -> None:
    link = Component(ComponentType.NVLINK, pci="0000:53:00", link=4)
    assert component_key(link) == "nvlink/pci=0000:53:00/link=4"


def test_every_action_but_restarting_an_application_needs_a_case() -> None:
    assert {action for action in Action if not action.opens_case} == {Action.NONE, Action.RESTART_APP}
