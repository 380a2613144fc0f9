"""Families are data: the faults of a failure mode have the family of a shared cause, or none."""

from __future__ import annotations

import re

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.model.fault_enums import Family

ROWS = load_catalog().rows
SHARED = re.compile(
    r"power|therm|temperature|heat|cooling|nvlink|nvswitch|fabric|storage|file server|network|driver|kernel|kubelet"
)
"""Words of the kinds of faults that often have a shared cause."""

OF_ONE_DEVICE = {
    "its power controller, power smoothing or power sensor": (
        "xid.55 xid.59 xid.61 xid.62 xid.162 xid.163 xid.164 xid.165 dcgm.health_pmu dcgm.power_unreadable"
        " dcgm.target_power"
    ),
    "a program that used memory of a peer without permission": "xid.137 xid.170",
    "a message or a setting": "xid.87 dcgm.denylisted_driver dcgm.enforced_power_limit",
    "the word only says where it was seen": (
        "host.out_of_memory host.pci_device_unreadable host.pcie_width_reduced smi.ecc_uncorrectable"
    ),
    "the driver's recommendation for one GPU": "host.gpu_reset_required",
    "one failed node is reported by all peers of its job": "train.nccl_peer_unreachable",
}
"""Codes without a family whose names contain such a word, by the reason why they have none."""


def test_a_code_of_a_kind_with_shared_causes_has_a_family_or_a_reason_why_not() -> None:
    plain = (row for code, row in ROWS.items() if ":" not in code and row.family is None)
    found = {row.code for row in plain if SHARED.search(f"{row.code} {row.name}".lower())}
    assert found == {code for codes in OF_ONE_DEVICE.values() for code in codes.split()}


@pytest.mark.parametrize(
    ("family", "code"),
    [
        (Family.POWER, "host.power_failed"),
        (Family.POWER, "cloud.system_impaired"),
        (Family.THERMAL, "host.overheated"),
        (Family.THERMAL, "host.cooling_failed"),
        (Family.STORAGE, "host.file_server_lost"),
        (Family.SOFTWARE, "smi.no_devices"),
        (Family.SOFTWARE, "cloud.instance_impaired"),
        (Family.NVLINK, "sxid.20034"),
        (Family.NVLINK, "xid.74"),
        (Family.NVLINK, "xid.74:signal_integrity"),
        (Family.NETWORK, "net.link_down"),
        (None, "xid.79"),
        (None, "xid.48"),
        (None, "host.disk_failed"),
        (None, "train.nccl_peer_unreachable"),
    ],
)
def test_a_shared_cause_has_a_family_and_a_fault_of_one_device_has_none(family: Family | None, code: str) -> None:
    assert ROWS[code].family is family
