"""Symptoms: the fault that Faultbridge receives for each kind of trace fault or false alarm."""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault

_GPU = Component(ComponentType.GPU, pci="0000:c1:00")
_NIC = Component(ComponentType.NIC, name="mlx5_0")

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
