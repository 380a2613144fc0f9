"""Reads `/proc/mdstat`: the software RAID arrays of Linux, and the disks that they lack.

Grammar: `NAME : STATE LEVEL MEMBER[N](F) ...`, then the blocks with `[DISKS/WORKING]`. An array check in progress is no
fault. Source: Linux 4 to 6, md(4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.fields import evidence
from faultbridge.domain.faults import Component, ComponentType, Fault

FAILED, INACTIVE = "host.raid_member_failed", "host.raid_inactive"
_ARRAY = re.compile(
    r"^(?P<name>md\w{1,32}) : (?P<state>active|inactive|broken)(?: \([\w-]{1,32}\))?(?P<rest>(?: [^\n]{0,4096})?)"
    r"(?:\n[ \t]{1,16}(?P<blocks>\d{1,20} blocks[^\n]{0,512}))?",
    re.MULTILINE,
)
_WORKING = re.compile(r"\[(\d{1,4})/(\d{1,4})\]")
_FAULTY = re.compile(r"([\w!-]{1,32})\[\d{1,4}\](?:\([A-Z]\)){0,3}\(F\)")


@dataclass(frozen=True, slots=True)
class Array:
    """One software RAID array: its component, and its fault or None.

    `decides` lists the fault codes that the state of the array proves present or absent.
    """

    component: Component
    decides: tuple[str, ...]
    fault: Fault | None


def is_mdstat(text: str) -> bool:
    """Return whether a text is probably the content of `/proc/mdstat`, even if it lists no array."""
    return "Personalities :" in text and (_ARRAY.search(text) is not None or "unused devices:" in text)


def arrays_of(source: str, text: str) -> Iterator[Array]:
    """Yield each array, with a fault if a disk is missing or failed, or if the array is not active.

    For an array that was not started, the state of its disks is unknown.
    """
    for array in _ARRAY.finditer(text) if "Personalities :" in text else ():
        faulty, working = _FAULTY.findall(array["rest"]), _WORKING.search(array["blocks"] or "")
        lacks = working is not None and int(working[2]) < int(working[1])
        disk = Component(ComponentType.DISK, name=array["name"])
        if not faulty and not lacks and array["state"] == "active":
            yield Array(disk, (FAILED, INACTIVE), None)
            continue
        shown = f"{array['name']} is {array['state']}"
        shown += f" with {working[2]} of {working[1]} disks" if working else ""
        shown += f"; failed: {', '.join(faulty[:16])}" if faulty else ""
        details = {"state": array["state"]} | ({"member": ", ".join(faulty[:16])} if faulty else {})
        is_unstarted = array["state"] == "inactive"
        code = INACTIVE if is_unstarted else FAILED
        fault = Fault(source, code, disk, f"{shown}.", None, evidence(array[0]), details)
        yield Array(disk, (INACTIVE,) if is_unstarted else (FAILED, INACTIVE), fault)
