"""Decodes `disk-health`: the health of disks from smartctl or `nvme smart-log`, and of disk arrays.

Grammar: smartctl's JSON (-j) or `Name: value` text of an NVMe or SATA disk; `nvme smart-log` as text or JSON; also
`/proc/mdstat`. EBS volumes report zeros everywhere, so a spare of 0 with a limit of 0 is healthy. The health
of a disk without a health log is unknown. The text output of smartctl does not name the disk, so its name comes from
the command line. Times: none. Units: percent. Errors: `Rejected(no_framing)` for other input. Source: smartmontools 7,
nvme-cli 1 and 2, Linux 4 to 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.captures import outputs_of
from faultbridge.decode.frames.decoder import Hints, Judged, fault_of, snapshot_of
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.frames.values import bounded, members, text
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, Observation

# Reads `/proc/mdstat`: the software RAID arrays of Linux, and the disks that they lack.
#
# Grammar: `NAME : STATE LEVEL MEMBER[N](F) ...`, then the blocks with `[DISKS/WORKING]`. An array check in progress is
# no fault. Source: Linux 4 to 6, md(4).

FAILED, INACTIVE = "host.raid_member_failed", "host.raid_inactive"
_ARRAY = re.compile(
    r"^(?P<name>md\w{1,32}) : (?P<state>active|inactive|broken)(?: \([\w-]{1,32}\))?(?P<rest>(?: [^\n]{0,4096})?)"
    r"(?:\n[ \t]{1,16}(?P<blocks>\d{1,20} blocks[^\n]{0,512}))?",
    re.MULTILINE,
)
_WORKING = re.compile(r"\[(\d{1,4})/(\d{1,4})\]")
_FAULTY = re.compile(r"([\w!-]{1,32})\[\d{1,4}\](?:\([A-Z]\)){0,3}\(F\)")


def _is_mdstat(text: str) -> bool:
    """Return whether a text is probably the content of `/proc/mdstat`, even if it lists no array."""
    return "Personalities :" in text and (_ARRAY.search(text) is not None or "unused devices:" in text)


def _array_checks(array: re.Match[str]) -> Iterator[Judged]:
    """Judge an array: it has a fault if a disk is missing or failed, or if the array is not active."""
    faulty, working, state = _FAULTY.findall(array["rest"]), _WORKING.search(array["blocks"] or ""), array["state"]
    lacks = working is not None and int(working[2]) < int(working[1])
    disk, members_ = Component(ComponentType.DISK, name=array["name"]), ", ".join(faulty[:16])
    text = f"{array['name']} is {state}" + (f" with {working[2]} of {working[1]} disks" if working else "")
    text += f"; failed: {members_}" if faulty else ""
    # The state of the disks of an array that was not started is unknown.
    codes = (INACTIVE,) if state == "inactive" else (FAILED, INACTIVE)
    fault = fault_of(SOURCE, codes[0], disk, f"{text}.", array[0], state=state, member=members_)
    is_bad = faulty or lacks or state != "active"
    yield from ((code, disk, fault if is_bad and code == fault.code else None) for code in codes)


SOURCE = "disk-health"
FAILING, WORN = "host.disk_failing", "host.disk_worn"
_DEVICE = re.compile(r"(?:/dev/)?((?:nvme\d{1,4}|sd[a-z]{1,3}|ng\d{1,4})\w{0,8})\b")
_LINE = re.compile(r"^[ \t]{0,8}([A-Za-z][\w /().-]{1,63}?)[ \t]{0,40}: {0,40}(\S[^\n]{0,128})", re.MULTILINE)
_NUMBER = re.compile(r"(0x[0-9a-fA-F]{1,8}|[\d,]{1,24})")
_START = re.compile(r"^(?:Smart Log for NVME device:|smartctl \d)", re.MULTILINE)
_VERDICT = re.compile(r"^SMART overall-health self-assessment test result: ", re.MULTILINE)
# The bits of an NVMe disk's critical warning; bit 1 is the temperature.
_WARNINGS = {0: "spare below its limit", 2: "reliability degraded", 3: "read-only", 4: "backup of its cache failed"}
_HOT = 1
_USED_UP = 100


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return one health snapshot of all arrays and of all disks that have a health log."""
    text_ = text_of(body)
    disks = bounded(_disks(text_))
    arrays = bounded(_ARRAY.finditer(text_) if "Personalities :" in text_ else ())
    if not disks and not _is_mdstat(text_):
        raise Rejected("no_framing", "no health log of a disk, and no array")
    judged = [one for name, fields in disks if fields for one in _disk_checks(name, fields)]
    # Several disks can have one name, or none: a fault of any of them counts.
    worst = {(code, disk): fault for code, disk, fault in sorted(judged, key=lambda one: one[2] is not None)}
    checks = [(code, disk, fault) for (code, disk), fault in worst.items()]
    return (snapshot_of(SOURCE, [*checks, *(one for array in arrays for one in _array_checks(array))]),)


def _disks(body: str) -> Iterator[tuple[str | None, Mapping[str, Any]]]:
    """Yield, for each disk, its name (None if unknown) and the fields of its health log."""
    if body.lstrip()[:1] in {"{", "["}:
        for _, document in objects(body):
            if document.keys() & {"smartctl", "critical_warning", "nvme_smart_health_information_log"}:
                yield _of_json(document)
        return
    for title, text_ in _parts(body):
        fields = {_key(name): value.strip() for name, value in _LINE.findall(text_)}
        passed = fields.get("smart_overall_health_self_assessment_test_result") or fields.get("smart_health_status")
        has_log = passed is not None or "critical_warning" in fields
        device = _DEVICE.search(text_.partition("\n")[0]) or _DEVICE.search(title) or _DEVICE.search(text_)
        yield device[1] if device else None, fields | {"passed": passed} if has_log else {}


def _parts(body: str) -> Iterator[tuple[str, str]]:
    """Yield, for each disk, a text that may name the disk, and the output about the disk."""
    for output in outputs_of(body):
        starts = [found.start() for found in _START.finditer(output.text)]
        if not starts and _VERDICT.search(output.text):
            starts = [0]
        for start, end in zip(starts, [*starts[1:], len(output.text)], strict=False):
            before = output.text[:start].rstrip().rpartition("\n")[2]
            yield before or output.title, output.text[start:end]


def _of_json(document: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    device = _DEVICE.search(text(members(document.get("device")).get("name")) or "")
    log = members(document.get("nvme_smart_health_information_log")) or document
    status = members(document.get("smart_status")).get("passed")
    passed = None if status is None else "PASSED" if status else "FAILED"
    has_log = status is not None or "critical_warning" in log
    fields = {_key(name): value for name, value in log.items()} | {"passed": passed} if has_log else {}
    return (device[1] if device else None), fields


def _key(name: str) -> str:
    return re.sub(r"\W+", "_", name.strip().lower())


def _disk_checks(name: str | None, fields: Mapping[str, Any]) -> Iterator[Judged]:
    warning = _number(fields, "critical_warning") or 0
    spare = _number(fields, "available_spare", "avail_spare")
    limit = _number(fields, "available_spare_threshold", "spare_thresh")
    used = _number(fields, "percentage_used", "percent_used")
    reasons = [says for bit, says in _WARNINGS.items() if warning >> bit & 1]
    if spare is not None and limit is not None and spare < limit and _WARNINGS[0] not in reasons:
        reasons.append(_WARNINGS[0])
    if str(fields.get("passed") or "PASSED").upper() not in {"PASSED", "OK"}:
        reasons.append("self-assessment failed")
    signs = ["too hot"] if warning >> _HOT & 1 else []
    signs += [f"{used} % of its rated life used"] if used is not None and used >= _USED_UP else []
    shown = {"critical_warning": hex(warning), "spare": spare, "spare_limit": limit, "used": used}
    details: dict[str, Any] = {key: str(value) for key, value in shown.items() if value is not None}
    disk = Component(ComponentType.DISK, name=name)
    for code, texts in ((FAILING, reasons), (WORN, signs)):
        fault = fault_of(SOURCE, code, disk, f"{name or 'A disk'}: {', '.join(texts)}.", str(details), **details)
        yield code, disk, fault if texts else None


def _number(fields: Mapping[str, Any], *names: str) -> int | None:
    value = next((fields[name] for name in names if name in fields), None)
    if isinstance(value, dict):
        # nvme-cli 2 prints the bits of a warning as an object with the value first.
        value = value.get("value")
    found = _NUMBER.match(str(value)) if value is not None and not isinstance(value, bool) else None
    if found is None or not found[1].strip(","):
        return None
    return int(found[1], 16) if found[1].startswith("0x") else int(found[1].replace(",", ""))
