"""Sample records in real formats, such as kernel log, nvidia-smi, DCGM, link state and Alertmanager."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from faultbridge.model.times import to_text

GPUS = ("00000000:53:00.0", "00000000:C1:00.0")
_XID_TEXTS = {
    79: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    48: "pid=4711, name=python, DBE (double bit error) ECC Error",
    31: "pid=4711, name=python, Ch 00000008, intr 10000000. MMU Fault: ENGINE GRAPHICS faulted",
    62: "pid=4711, name=python, Internal micro-controller halt",
    92: "pid=4711, name=python, High single-bit ECC error rate",
    64: "pid='<unknown>', name=<unknown>, Row Remapper Error: failed to record the remapped row",
    143: "pid='<unknown>', name=<unknown>, GPU Initialization Error",
    999: "pid=4711, name=python, an undocumented error",
    119: "pid=4711, name=python, Timeout after 6s of waiting for RPC response from GPU0 GSP!",
}


def kernel_line(number: int, gpu: int, at: datetime | None) -> bytes:
    """Return a kernel log line that reports Xid `number` of a GPU, with the timestamp `at` if it is given."""
    pci = GPUS[gpu % len(GPUS)].removesuffix(".0").removeprefix("0000").lower()
    prefix = f"{at:%Y-%m-%dT%H:%M:%S,%f}+00:00 " if at else ""  # as `dmesg --time-format iso` prints it
    return f"{prefix}NVRM: Xid (PCI:{pci}): {number}, {_XID_TEXTS[number]}\n".encode()


def nvidia_smi_xml(fault: str, gpu: int, at: datetime | None) -> bytes:
    """Return the output of `nvidia-smi -q -x` for two GPUs, of which one may have a fault.

    `fault` is `lost`, `remap`, `heat`, or "" for no fault. `gpu` selects the GPU that has the fault.
    """
    stamp = f"<timestamp>{at:%a %b} {at.day:>2} {at:%H:%M:%S %Y}</timestamp>" if at else ""
    gpus = "".join(_gpu(number, fault if number == gpu % len(GPUS) else "") for number in range(len(GPUS)))
    count = f"<attached_gpus>{len(GPUS)}</attached_gpus>"
    return f'<?xml version="1.0" ?>\n<nvidia_smi_log>{stamp}{count}{gpus}</nvidia_smi_log>'.encode()


def _gpu(number: int, fault: str) -> str:
    if fault == "lost":
        fields = "<uuid>GPU is lost</uuid><fan_speed>GPU is lost</fan_speed>"
    else:
        pending = "Yes" if fault == "remap" else "No"
        heat = "Active" if fault == "heat" else "Not Active"
        fields = (
            f"<uuid>GPU-0000000{number}-aaaa-bbbb-cccc-000000000000</uuid><fan_speed>N/A</fan_speed>"
            f"<remapped_rows><remapped_row_pending>{pending}</remapped_row_pending></remapped_rows>"
            f"<clocks_event_reasons><clocks_event_reason_hw_thermal_slowdown>{heat}"
            "</clocks_event_reason_hw_thermal_slowdown></clocks_event_reasons>"
            "<temperature><gpu_temp>41 C</gpu_temp></temperature>"
        )
    return f'<gpu id="{GPUS[number]}">{fields}</gpu>'


def dcgm_health(failed_system: str, gpu: int) -> bytes:
    """Return the output of `dcgmi health -c -j`.

    `failed_system` names the DCGM watch that failed on the GPU number `gpu`, or is "" if no watch failed.
    """
    body: dict[str, object] = {"Overall Health": {"value": "Failure" if failed_system else "Healthy"}}
    if failed_system:
        errors = {failed_system: {"value": "Failure", "overflow": ["A watch", "failed."]}}
        body["GPU"] = {"children": {str(gpu % len(GPUS)): {"children": {"Errors": {"children": errors}}}}}
    return json.dumps({"body": body, "header": ["Health Monitor Report"]}).encode()


def link_state(*, up: bool, absent: bool = False) -> bytes:
    """Return a link-state record about one configured port, which is up or down.

    The record contains the output of `ip -j link`. With `absent`, this output does not contain the port.
    """
    port = {"ifname": "ens5", "link_type": "ether", "flags": ["BROADCAST", "UP"], "operstate": "UP" if up else "DOWN"}
    return json.dumps({"configured": ["ens5"], "interfaces": [] if absent else [port]}).encode()


def impaired_instance_status(instance_id: str) -> bytes:
    """Return a `describe-instance-status` answer in which the host of an instance is impaired."""
    check = {"Status": "impaired", "Details": [{"Name": "reachability", "Status": "failed"}]}
    status = {"InstanceId": instance_id, "InstanceStatus": {"Status": "ok"}, "SystemStatus": check}
    return json.dumps({"InstanceStatuses": [status]}).encode()


def instance_shutdown(instance_id: str, at: datetime) -> bytes:
    """Return the EC2 event that reports that an instance is shutting down."""
    detail = {"instance-id": instance_id, "state": "shutting-down"}
    kind = "EC2 Instance State-change Notification"
    return json.dumps({"source": "aws.ec2", "detail-type": kind, "time": to_text(at), "detail": detail}).encode()


def heartbeat(number: int, at: datetime) -> bytes:
    """Return the heartbeat with this number; `at` is the time that the agent's clock shows."""
    return json.dumps({"heartbeat": number, "at": to_text(at)}).encode()


def alert_group(nodes: Iterable[str], at: datetime, *, resolved: bool, xid: int = 79, gpu: int = 0) -> bytes:
    """Return an Alertmanager notification with one alert for each node, about an Xid of a GPU.

    With `resolved`, the status of the alerts is `resolved`, else `firing`.
    """
    times = {"startsAt": to_text(at)} | ({"endsAt": to_text(at)} if resolved else {})
    alerts = [
        {
            "status": "resolved" if resolved else "firing",
            "labels": {"alertname": "GpuXid", "instance": f"{node}:9400", "pci_bus_id": GPUS[gpu % len(GPUS)]},
            "annotations": {"summary": f"Xid {xid}"},
            **times,
        }
        for node in nodes
    ]
    return json.dumps({"receiver": "faultbridge", "groupLabels": {}, "alerts": alerts}).encode()


def normalized_faults(number: int, *, kind: str, large: bool, first: int = 0) -> bytes:
    """Return `number` faults or clears in Faultbridge's own format, each about a different network port.

    `kind` is `fault` or `clear`. `first` is the number of the first port. With `large`, each fault or clear has
    32 KB of attributes.
    """
    attributes = {f"attribute-{one}": "x" * 512 for one in range(64)} if large else {}
    documents = (
        {
            "kind": kind,
            "code": "net.link_down",
            "component": {"type": "nic", "name": f"port-{one}"},
            "message": "The link is down.",
            "attributes": attributes,
        }
        for one in range(first, first + number)
    )
    return "\n".join(map(json.dumps, documents)).encode()


class Sample(NamedTuple):
    """A kind of record that a simulated source sends.

    - `source` is the source of the record.
    - `weight` sets how often a plan draws this kind, relative to the weights of the other kinds.
    - `body` is a function that builds the body from the number of a GPU and a timestamp. If the timestamp is None, the
      body contains no timestamp.
    """

    source: str
    weight: int
    body: Callable[[int, datetime | None], bytes]


SAMPLES: Mapping[str, Sample] = {
    "xid 79": Sample("kernel-log", 10, lambda gpu, at: kernel_line(79, gpu, at)),
    "xid 48": Sample("kernel-log", 5, lambda gpu, at: kernel_line(48, gpu, at)),
    "xid 119": Sample("kernel-log", 3, lambda gpu, at: kernel_line(119, gpu, at)),
    "xid 31": Sample("kernel-log", 10, lambda gpu, at: kernel_line(31, gpu, at)),
    "xid 92": Sample("kernel-log", 4, lambda gpu, at: kernel_line(92, gpu, at)),
    "unknown xid": Sample("kernel-log", 2, lambda gpu, at: kernel_line(999, gpu, at)),
    "nvidia-smi: healthy": Sample("nvidia-smi-xml", 10, lambda gpu, at: nvidia_smi_xml("", gpu, at)),
    "nvidia-smi: GPU lost": Sample("nvidia-smi-xml", 4, lambda gpu, at: nvidia_smi_xml("lost", gpu, at)),
    "nvidia-smi: remap pending": Sample("nvidia-smi-xml", 5, lambda gpu, at: nvidia_smi_xml("remap", gpu, at)),
    "nvidia-smi: thermal slowdown": Sample("nvidia-smi-xml", 3, lambda gpu, at: nvidia_smi_xml("heat", gpu, at)),
    "DCGM: healthy": Sample("dcgm-health", 4, lambda gpu, _: dcgm_health("", gpu)),
    "DCGM: memory failed": Sample("dcgm-health", 3, lambda gpu, _: dcgm_health("Memory system", gpu)),
    "links up": Sample("link-state", 4, lambda _, __: link_state(up=True)),
    "link down": Sample("link-state", 4, lambda _, __: link_state(up=False)),
    "invalid XML": Sample("nvidia-smi-xml", 2, lambda _, __: b"\x00<nvidia_smi"),
    "unrelated kernel line": Sample("kernel-log", 2, lambda _, __: b"the quick brown fox\n"),
}
"""The samples by name. Their order must not change, because the plan of each seed depends on it."""

HARDWARE_FAULTS = frozenset({"xid 79", "xid 48", "nvidia-smi: GPU lost"})
"""The names of samples that usually mean a bad instance, which fails its verification."""
