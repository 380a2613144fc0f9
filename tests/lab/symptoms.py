"""Symptoms: the fault that Faultbridge receives for each kind of trace fault or false alarm."""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.decode.data import load_catalog
from faultbridge.model.catalog import Catalog, Kind, Mode, Row, Scope, WorkEffect
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault
from faultbridge.model.values import replace

_GPU = Component(ComponentType.GPU, pci="0000:c1:00")
_NIC = Component(ComponentType.NIC, name="mlx5_0")

PRECURSOR = "precursor"
PRECURSOR_MODE = "lab.precursor"
"""The synthetic failure mode of a precursor, which `lab_catalog` adds to the product's catalog."""

CODES: Mapping[str, str] = {
    "GPU: GPU DBE(Double Bit ECC) > Threshold": "xid.48",
    "GPU: GPU xid Error": "xid.119",
    "GPU: GPU Lost": "xid.79",
    "GPU: GPU device not found": "xid.79",
    "GPU: GPU device unknow error": "xid.119",
    "GPU: GPU PCI link width low": "host.pcie_fatal",
    "GPU: nvidia-smi Timeout": "smi.hang",
    "GPU": "agent.gpu_unhealthy",
    "Parameter Plane Cable": "net.link_down",
    "NIC: NIC Lost": "net.link_absent",
    "NIC": "net.link_down",
    "Power Supply": "cloud.system_impaired",
    "Fan": "cloud.system_impaired",
    "Motherboard": "host.machine_check",
    "CPU": "host.machine_check",
    "RAID Card": "host.raid_member_failed",
    "File System": "host.filesystem_error",
    "Software Tool": "host.not_ready",
    "Operating System": "host.kernel_panic",
    "System Crash": "host.unreachable",
    "Stress Test Failure": "agent.health_check_failed",
    "Training Task Troubleshooting": "agent.health_check_failed",
    PRECURSOR: PRECURSOR_MODE,
    "alarm: heartbeat": "host.silent",
    "alarm: link": "net.link_down",
    "alarm: not ready": "host.not_ready",
}
"""Catalog codes by `class: description`, or by class alone; the mapping of trace texts to codes is an assumption."""

OTHER = "agent.node_unhealthy"
"""The code of every other kind, such as the 25 % of the InfiniteHBD trace with an unknown cause."""

SOURCE = "lab"


def symptom(kind: str) -> Fault:
    """Return the fault that Faultbridge receives for a fault of a trace or a false alarm, by its `kind`."""
    code = CODES.get(kind) or CODES.get(kind.partition(":")[0]) or OTHER
    component = _GPU if code.startswith(("xid.", "smi.")) else _NIC if code.startswith("net.") else NODE_COMPONENT
    return Fault(SOURCE, code, component, kind)


def lab_catalog() -> Catalog:
    """Return the product's catalog with the synthetic precursor, whose node may be drained after a checkpoint."""
    catalog, ends_on = load_catalog(), ("reboot_node", "replace_node", "verified")
    mode = Mode(
        PRECURSOR_MODE,
        (ComponentType.NODE,),
        "A fault will begin.",
        WorkEffect.AT_RISK,
        Severity.ERROR,
        Action.RUN_DIAGNOSTICS,
        ends_on,
        after_checkpoint="drain",
    )
    row = Row(
        PRECURSOR_MODE,
        "Precursor of a fault",
        mode.severity,
        mode.action,
        Kind.EDGE,
        Scope.BOOT,
        ends_on,
        mode=mode.name,
        work=mode.work,
    )
    coverage = {
        verifier: {level: (*codes, PRECURSOR_MODE) for level, codes in levels.items()}
        for verifier, levels in catalog.coverage.items()
    }
    return replace(
        catalog,
        rows={**catalog.rows, PRECURSOR_MODE: row},
        modes={**catalog.modes, PRECURSOR_MODE: mode},
        coverage=coverage,
    )
