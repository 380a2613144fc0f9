"""Reads `/proc/mdstat`: the arrays of disks of Linux and the disks that they lack.

Grammar: `NAME : STATE LEVEL MEMBER[N](F) ...`, then the blocks with `[DISKS/WORKING]`. A check in progress is no fault.
Source: Linux 4 to 6, md(4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultbridge.decoders.common.fields import evidence
from faultbridge.domain.faults import Action, Component, ComponentType, Fault, Severity

FAILED = "host.raid_member_failed"
_ARRAY = re.compile(
    r"^(?P<name>md\w{1,32}) : (?P<state>active|inactive|broken)(?: \([\w-]{1,32}\))?(?P<rest>(?: [^\n]{0,4096})?)"
    r"(?:\n[ \t]{1,16}(?P<blocks>\d{1,20} blocks[^\n]{0,512}))?",
    re.MULTILINE,
)
_WORKING = re.compile(r"\[(\d{1,4})/(\d{1,4})\]")
_FAULTY = re.compile(r"([\w!-]{1,32})\[\d{1,4}\](?:\([A-Z]\)){0,3}\(F\)")


def is_mdstat(text: str) -> bool:
    """Return whether a text lists the arrays, also if there is none."""
    return "Personalities :" in text and (_ARRAY.search(text) is not None or "unused devices:" in text)


def faults_of_arrays(source: str, text: str) -> Iterator[Fault]:
    """Yield a fault for each array that lacks a disk, that failed, or that could not be started."""
    for array in _ARRAY.finditer(text) if "Personalities :" in text else ():
        faulty, working = _FAULTY.findall(array["rest"]), _WORKING.search(array["blocks"] or "")
        lacks = working is not None and int(working[2]) < int(working[1])
        if not faulty and not lacks and array["state"] == "active":
            continue
        shown = f"{array['name']} is {array['state']}"
        shown += f" with {working[2]} of {working[1]} disks" if working else ""
        shown += f"; failed: {', '.join(faulty[:16])}" if faulty else ""
        disk = Component(ComponentType.DISK, name=array["name"])
        details = {"state": array["state"]} | ({"member": ", ".join(faulty[:16])} if faulty else {})
        fault = Fault(source, FAILED, disk, f"{shown}.", None, evidence(array[0]), details)
        # The rest of an array of an earlier instance store can also not be started.
        is_unstarted = array["state"] == "inactive"
        yield fault.classified(Severity.WARNING, Action.RUN_DIAGNOSTICS) if is_unstarted else fault
