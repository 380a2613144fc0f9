"""What sources send, in the formats that they have: small, true to shape, made here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime

GPUS = ("00000000:53:00.0", "00000000:C1:00.0")
_XID = {
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    48: "pid=4711, name=python, DBE (double bit error) ECC Error",
    31: "pid=4711, name=python, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS faulted",
    92: "pid=4711, name=python, High single-bit ECC error rate",
    999: "pid=4711, name=python, something that nobody has written about",
    119: "pid=4711, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
}


def kernel_line(number: int, gpu: int, at: datetime | None) -> bytes:
    """Make a kernel line of an Xid; with a time of its own if one is given."""
    pci = GPUS[gpu % len(GPUS)].removesuffix(".0").removeprefix("0000").lower()
    prefix = f"{at:%Y-%m-%dT%H:%M:%S.%f}+00:00 host kernel: " if at else ""
    return f"{prefix}NVRM: Xid (PCI:{pci}): {number}, {_XID[number]}\n".encode()


def snapshot(wrong: str, gpu: int, at: datetime | None) -> bytes:
    """Make an `nvidia-smi -q -x` of two GPUs; `wrong` is what the chosen one suffers from, or nothing."""
    stamp = f"<timestamp>{at:%a %b} {at.day:>2} {at:%H:%M:%S %Y}</timestamp>" if at else ""
    gpus = "".join(_gpu(number, wrong if number == gpu % len(GPUS) else "") for number in range(len(GPUS)))
    count = f"<attached_gpus>{len(GPUS)}</attached_gpus>"
    return f'<?xml version="1.0" ?>\n<nvidia_smi_log>{stamp}{count}{gpus}</nvidia_smi_log>'.encode()


def _gpu(number: int, wrong: str) -> str:
    if wrong == "lost":
        fields = "<uuid>GPU is lost</uuid><fan_speed>GPU is lost</fan_speed>"
    else:
        pending = "Yes" if wrong == "remap" else "No"
        heat = "Active" if wrong == "heat" else "Not Active"
        fields = (
            f"<uuid>GPU-0000000{number}-aaaa-bbbb-cccc-000000000000</uuid><fan_speed>N/A</fan_speed>"
            f"<remapped_rows><remapped_row_pending>{pending}</remapped_row_pending></remapped_rows>"
            f"<clocks_event_reasons><clocks_event_reason_hw_thermal_slowdown>{heat}"
            "</clocks_event_reason_hw_thermal_slowdown></clocks_event_reasons>"
            "<temperature><gpu_temp>41 C</gpu_temp></temperature>"
        )
    return f'<gpu id="{GPUS[number]}">{fields}</gpu>'


def health(wrong: str, gpu: int) -> bytes:
    """Make a `dcgmi health -c -j`; `wrong` is a watched system that failed, or nothing."""
    body: dict[str, object] = {"Overall Health": {"value": "Failure" if wrong else "Healthy"}}
    if wrong:
        told = {wrong: {"value": "Failure", "overflow": ["A watch", "failed."]}}
        body["GPU"] = {"children": {str(gpu % len(GPUS)): {"children": {"Errors": {"children": told}}}}}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]}).encode()


def links(wrong: str) -> bytes:
    """Make an `ip -j link` of one configured port, without a link if `wrong`."""
    up = {"ifname": "ens5", "link_type": "ether", "flags": ["BROADCAST", "UP"], "operstate": "DOWN" if wrong else "UP"}
    return json.dumps({"configured": ["ens5"], "interfaces": [up]}).encode()


def host_impaired(instance_id: str) -> bytes:
    """Make an answer of `describe-instance-status` that finds the host under an instance impaired."""
    check = {"Status": "impaired", "Details": [{"Name": "reachability", "Status": "failed"}]}
    status = {"InstanceId": instance_id, "InstanceStatus": {"Status": "ok"}, "SystemStatus": check}
    return json.dumps({"InstanceStatuses": [status]}).encode()


Make = Callable[[int, datetime | None], bytes]

SAMPLES: Mapping[str, tuple[str, Make]] = {
    "xid 79": ("kernel-log", lambda gpu, at: kernel_line(79, gpu, at)),
    "xid 48": ("kernel-log", lambda gpu, at: kernel_line(48, gpu, at)),
    "xid 119": ("kernel-log", lambda gpu, at: kernel_line(119, gpu, at)),
    "xid 31": ("kernel-log", lambda gpu, at: kernel_line(31, gpu, at)),
    "xid 92": ("kernel-log", lambda gpu, at: kernel_line(92, gpu, at)),
    "unknown xid": ("kernel-log", lambda gpu, at: kernel_line(999, gpu, at)),
    "healthy health snapshot": ("nvidia-smi-xml", lambda gpu, at: snapshot("", gpu, at)),
    "health snapshot: GPU lost": ("nvidia-smi-xml", lambda gpu, at: snapshot("lost", gpu, at)),
    "health snapshot: remap pending": ("nvidia-smi-xml", lambda gpu, at: snapshot("remap", gpu, at)),
    "health snapshot: hot": ("nvidia-smi-xml", lambda gpu, at: snapshot("heat", gpu, at)),
    "healthy watches": ("dcgm-health", lambda gpu, _: health("", gpu)),
    "watches: memory failed": ("dcgm-health", lambda gpu, _: health("Memory system", gpu)),
    "links up": ("link-state", lambda _, __: links("")),
    "link down": ("link-state", lambda _, __: links("down")),
    "garbage": ("nvidia-smi-xml", lambda _, __: b"\x00<nvidia_smi"),
    "nothing known": ("kernel-log", lambda _, __: b"the quick brown fox\n"),
}
"""Each sample's source and how to make it for a GPU and, where the format carries one, a time."""

HARD = frozenset({"xid 79", "xid 48", "health snapshot: GPU lost"})
"""What is most often true: the machine is broken and would not pass a verification."""
