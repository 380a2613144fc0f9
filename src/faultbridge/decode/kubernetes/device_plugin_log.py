"""Decodes `device-plugin-log`: the log of NVIDIA's Kubernetes device plugin.

The plugin marks a GPU as unhealthy after each Xid that it does not attribute to an application. Grammar:
`XidCriticalError: Xid=N on Device=UUID` or `Xid=N, All devices`, and `'RESOURCE' device marked unhealthy: UUID`, after
`YYYY/MM/DD HH:MM:SS` or the prefix of klog. Times: local times, taken as UTC; a klog time has no year. Units: none.
Errors: `Rejected(no_framing)` without such a line. Source: k8s-device-plugin's health.go, 0.6 to 0.17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from faultbridge.decode.frames.clock import MONTHS, iso_instant, yearless_time
from faultbridge.decode.frames.decoder import Decoder, Hints, evidence, truncate
from faultbridge.decode.frames.documents import text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, Fault, Observation

SOURCE = "device-plugin-log"
UNHEALTHY = "agent.gpu_unhealthy"
_UUID = r"(?:(GPU-[0-9a-fA-F-]{8,40})|(MIG-[\w/-]{8,80}))"
_XID = re.compile(rf"XidCriticalError: Xid=(\d{{1,6}})(?: on Device={_UUID}|, All devices)")
_MARKED = re.compile(rf"'[\w./-]{{1,128}}' device marked unhealthy: {_UUID}")
_TIME = re.compile(r"(?:(\d{4})/(\d\d)/(\d\d) (\d\d:\d\d:\d\d)|[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d)(?:\.\d{1,9})?) ")
_FRAMING = re.compile(
    rb"XidCriticalError: Xid=|device marked unhealthy: |Registered device plugin for '"
    rb"|^(?!.{0,4096}_TRANSPORT\b).{0,4096}\bnvidia-device-plugin[\w./-]{0,128}"
    rb"(?:\[\d{1,10}\])?(?:: |\] | {1,4}[|:]? ?[IWEF\d])",
    re.MULTILINE,
)


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each line with an Xid, and for lines that mark a GPU as unhealthy.

    A line that marks a GPU as unhealthy is left out if the log has an Xid of that GPU.
    """
    if not recognize(body):
        raise Rejected("no_framing", "no line of NVIDIA's device plugin")
    found = list(_faults(text_of(body), hints.received_at))
    named = {fault.component for fault in found if fault.code != UNHEALTHY}
    return tuple(fault for fault in found if fault.code != UNHEALTHY or fault.component not in named)


def recognize(body: bytes) -> bool:
    """Return whether a body probably has a line of NVIDIA's device plugin."""
    return _FRAMING.search(body) is not None


def _faults(text: str, received_at: datetime | None) -> Iterator[Fault]:
    for line in text.splitlines():
        xid, marked = _XID.search(line[:4096]), _MARKED.search(line[:4096])
        if xid is not None:
            yield _fault(f"xid.{int(xid[1])}", xid[2], xid[3], line, received_at)
        elif marked is not None:
            yield _fault(UNHEALTHY, marked[1], marked[2], line, received_at)


def _fault(code: str, uuid: str | None, part: str | None, line: str, received_at: datetime | None) -> Fault:
    component = Component(ComponentType.GPU, uuid=uuid)
    details = {"mig": part} if part else {}
    return Fault(SOURCE, code, component, truncate(line.strip()), _at(line, received_at), evidence(line), details)


def _at(line: str, received_at: datetime | None) -> datetime | None:
    found = _TIME.search(line[:128])
    if found is None:
        return None
    if found[1]:
        return iso_instant(f"{found[1]}-{found[2]}-{found[3]}T{found[4]}")
    month = next((name for name, number in MONTHS.items() if number == int(found[5])), None)
    return yearless_time(month, found[6], found[7], received_at) if month else None


DECODER = Decoder(
    name=SOURCE,
    summary="the log of NVIDIA's Kubernetes device plugin: Xids after which it marks a GPU unhealthy",
    example="I0203 04:05:06.000000       1 health.go:159] XidCriticalError: Xid=79 on "
    "Device=GPU-0a1b2c3d-0000-0000-0000-000000000001; marking device as unhealthy.",
    recognize=recognize,
    decode=decode,
    can_be_silent=True,
)
