"""Component names: one device has one name, however it was written."""

from __future__ import annotations

import pytest

from faultbridge.domain.conditions import component_key, identity
from faultbridge.domain.faults import Component, ComponentType, normalize_pci


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
def test_every_spelling_of_a_pci_address_is_one_address(written, canonical) -> None:
    assert normalize_pci(written) == canonical


@pytest.mark.parametrize("written", ["", "53", "xx:yy", "0000:53:00:11:22"])
def test_what_is_no_pci_address_is_refused(written) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is Python's own
        normalize_pci(written)


def test_a_known_device_lends_its_other_names() -> None:
    known = Component(ComponentType.GPU, pci="0000:53:00", uuid="GPU-1", index=3, serial="16")
    assert identity(Component(ComponentType.GPU, index=3), [known]) == known
    assert identity(Component(ComponentType.GPU, uuid="GPU-1"), [known]) == known


def test_a_shared_serial_is_no_proof_of_identity() -> None:
    known = Component(ComponentType.GPU, pci="0000:53:00", serial="16")
    stranger = Component(ComponentType.GPU, serial="16")
    assert identity(stranger, [known]) == stranger


def test_a_link_is_part_of_a_component() -> None:
    link = Component(ComponentType.NVLINK, pci="0000:53:00", link=4)
    assert component_key(link) == "nvlink/pci=0000:53:00/link=4"
