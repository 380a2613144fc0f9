"""Agreement with the public tables of NVIDIA and of peers; each departure is named here and justified in its row."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.model.fault_enums import Action
from faultbridge.model.faults import Fault
from tests.decoders.builders import DEPARTURES_FROM_NVIDIA, MIN_AGREEMENT, rows

BUCKETS: Mapping[str, frozenset[Action]] = {
    "RESTART_APP": frozenset({Action.RESTART_APP}),
    "IGNORE": frozenset({Action.NONE}),
    "RESET_GPU": frozenset({Action.RESET_GPU}),
    "CONTACT_SUPPORT": frozenset({Action.CONTACT_SUPPORT}),
    "RESTART_BM": frozenset({Action.REBOOT_NODE, Action.REPLACE_NODE}),
    "RESTART_VM": frozenset({Action.REBOOT_NODE}),
    "WORKFLOW_XID_48": frozenset({Action.RESET_GPU}),
    "WORKFLOW_NVLINK_ERR": frozenset({Action.RESET_GPU}),
    "CHECK_MECHANICALS": frozenset({Action.RUN_DIAGNOSTICS}),
    "UPDATE_SWFW": frozenset({Action.NONE, Action.RUN_DIAGNOSTICS}),
}


def decoded(line: str) -> Fault:
    (found,) = registry.decode("kernel-log", line.encode())
    assert isinstance(found, Fault)
    return found


def test_the_actions_of_xids_and_sxids_agree_with_nvidia_except_for_the_named_ones(shared: Path) -> None:
    departures: dict[str, str] = {}
    xids = rows(shared, "xid_catalog.csv")
    for row in xids:
        fault = decoded(f"[ 1.0] NVRM: Xid (PCI:0000:c1:00): {row['code']}, pid=1, name=x, text")
        assert fault.code == f"xid.{row['code']}"
        action, bucket = load_catalog().classify(fault).action, row["recommended_action"]
        if bucket in BUCKETS and action not in BUCKETS[bucket]:
            departures[fault.code] = bucket
    sxids = rows(shared, "sxid_catalog.csv")
    for row in sxids:
        line = f"[ 1.0] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): {row['code']}, Non-fatal, Link 1 text"
        assert decoded(line).code == f"sxid.{row['code']}"
    assert departures == DEPARTURES_FROM_NVIDIA
    assert 1 - len(departures) / (len(xids) + len(sxids)) >= MIN_AGREEMENT


def test_each_departure_is_marked_and_justified_in_its_row() -> None:
    for code in DEPARTURES_FROM_NVIDIA:
        row = load_catalog().row(code)
        assert row.conflict, code
        assert row.reason, code
        assert row.recommendations, code
