"""The form of a hardware return (RMA): fields with the entries that state them, and the causes that were excluded."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from faultbridge.decode.data import load_catalog
from faultbridge.model.cases import Case
from faultbridge.record.history import DeviceEvent

Json = dict[str, Any]


class FileEntry(Struct, frozen=True):
    """One entry of a case file: its position, its exact body and hash, and the text that it is evidence of."""

    epoch: int
    sequence: int
    hash: str
    body: str
    evidence: str | None

    @property
    def event(self) -> Json:
        """Return the metadata and the data of the entry."""
        parsed: Json = json.loads(self.body)
        return parsed


class Field(Struct, frozen=True):
    """One field of the form: its value, and the entry and the path in its data that state it; null if unknown."""

    section: str
    name: str
    value: Any
    entry: str | None = None
    path: tuple[str, ...] = ()


class Cause(Struct, frozen=True):
    """A common cause other than the hardware: whether it was excluded (null: unknown), how, and by which entries."""

    cause: str
    excluded: bool | None
    how: str
    entries: tuple[str, ...] = ()


class Form(Struct, frozen=True):
    """The form: its fields in their order, and the causes that a return must exclude.

    `missing` states which entries the record no longer has, or is null.
    """

    case_id: str
    fields: tuple[Field, ...]
    causes: tuple[Cause, ...]
    missing: str | None = None


_COMPONENT = {"type": "Component", "index": "Index", "uuid": "UUID", "serial": "Serial number", "pci": "PCI address"}
_PLACE = {"instance_type": "Instance type", "group": "Instance group", "domain": "Failure domain"}
_VERSIONS = {
    "Part number": ("part_number", "board_part_number"),
    "VBIOS version": ("vbios_version", "vbios"),
    "Driver version": ("driver_version", "driver"),
}
"""Names of the attributes of faults that state each version; a form without one has the value null."""

_FAULT = {
    "failure_mode": "Failure mode",
    "code": "Fault code",
    "codes": "All fault codes",
    "severity": "Severity",
    "message": "Message",
    "since": "First seen",
}
_SOFTWARE_STEPS = {"reset_gpu": "the state of the GPU and its driver", "reboot_node": "the operating system"}
_ENVIRONMENT_MODES = ("gpu.thermal", "gpu.power", "host.thermal", "host.power")


def fill_form(case: Case, entries: Sequence[FileEntry], history: Sequence[DeviceEvent]) -> Form:
    """Return the form of a case from the entries of its file and from the history of the device."""
    events, case_id = [one.event for one in entries], case.id
    own = [one for one in events if one["metadata"]["case_id"] == case_id]
    opened = next((one for one in own if one["data"].get("cause") and one["data"]["from"] is None), None)
    if opened is None:
        since = f"before {entries[0].epoch}/{entries[0].sequence} " if own else ""
        missing = f"the table has no entries of the case {since}any more; the archive may have them"
        return Form(case_id, tuple(_of_state(case)), (), missing)
    faults = [one for one in events if _is_fault_of(one, opened["data"]["cause"])]
    fields = [*_hardware(opened, faults), *_fault_fields(faults), *_actions(own), *_history(history)]
    return Form(case_id, tuple(fields), tuple(_causes(own, events, faults, history)))


def _of_state(case: Case) -> Iterator[Field]:
    """Yield what the state of a case still states, without an entry that proves it."""
    yield from (Field("Hardware", label, getattr(case.component, name)) for name, label in _COMPONENT.items())
    yield Field("Fault", _FAULT["failure_mode"], case.mode)
    yield Field("Fault", _FAULT["code"], case.code)


def _is_fault_of(event: Json, cause: Json) -> bool:
    data = event["data"]
    reported = event["metadata"]["event_type"] in {"Node Fault Detected", "Node Fault Updated"}
    return reported and data["failure_mode"] == cause["failure_mode"]


def _stated(section: str, name: str, event: Json, *path: str) -> Field:
    value = event["data"]
    for part in path:
        value = (value or {}).get(part)
    if value is None:
        return Field(section, name, None)
    return Field(section, name, value, event["metadata"]["event_id"], path)


def _hardware(opened: Json, faults: Sequence[Json]) -> Iterator[Field]:
    source = faults[-1] if faults else opened
    at = ("component",) if faults else ("cause", "component")
    yield from (_stated("Hardware", label, source, *at, name) for name, label in _COMPONENT.items())
    yield _stated("Hardware", "Instance", opened, "incarnation", "instance_id")
    yield from (_stated("Hardware", label, opened, "placement", name) for name, label in _PLACE.items())
    for label, names in _VERSIONS.items():
        found = ((fault, name) for fault in faults for name in names if name in fault["data"]["attributes"])
        fault, name = next(found, (opened, ""))
        yield _stated("Hardware", label, fault, "attributes", name) if name else Field("Hardware", label, None)


def _fault_fields(faults: Sequence[Json]) -> Iterator[Field]:
    if not faults:
        yield Field("Fault", "Fault", None)
        return
    yield from (_stated("Fault", label, faults[0], name) for name, label in _FAULT.items())
    yield _stated("Fault", "Last seen", faults[-1], "observed_at")
    yield _stated("Fault", "Observations", faults[-1], "count")
    row = load_catalog().row(faults[0]["data"]["code"])
    yield Field("Fault", "Meaning", row.name)
    for fault in faults:
        if fault["data"].get("evidence_sha256"):
            yield _stated("Fault", "Hash of the raw text", fault, "evidence_sha256")


def _actions(own: Iterable[Json]) -> Iterator[Field]:
    for event in own:
        data, kind = event["data"], event["metadata"]["event_type"]
        if kind == "Node Note Recorded" and data["kind"] == "approval" and "order" in data["facts"]:
            yield _stated("Actions", f"Approval ({data['facts']['order']})", event, "operator")
        if kind != "Node Replacement Step":
            continue
        at = event["metadata"]["occurred_at"]
        if data["step"] == "collect" and "bundle" in data["facts"]:
            yield _stated("Actions", f"Log bundle, {at}", event, "facts", "bundle")
        if data["step"] == "intent":
            yield _stated("Actions", f"Repair decided, {at}", event, "repair_action")
        if data["step"] in {"repair_in_place", "release_instance"}:
            yield _stated("Actions", f"Result of {data['repair_action']}, {at}", event, "outcome")
        if data["step"] == "verify" and data["outcome"] != "begun":
            yield _stated("Actions", f"Diagnostics on {data['new_instance'] or 'the instance'}, {at}", event, "outcome")
            if data["facts"].get("findings"):
                yield _stated("Actions", "Findings of the diagnostics", event, "facts", "findings")


def _history(history: Sequence[DeviceEvent]) -> Iterator[Field]:
    faults = [one for one in history if one.kind == "fault"]
    places = {(one.instance_id, one.slot) for one in history if one.instance_id}
    yield Field("Device history", "Faults of the device in the record", len(faults) if history else None)
    yield Field("Device history", "Slots in which it was", len(places) if history else None)


def _causes(
    own: Sequence[Json], events: Sequence[Json], faults: Sequence[Json], history: Sequence[DeviceEvent]
) -> Iterator[Cause]:
    steps = [one for one in own if one["metadata"]["event_type"] == "Node Replacement Step"]
    for action, cause in _SOFTWARE_STEPS.items():
        yield _software(cause, action, steps)
    shared = [one for one in own if one["data"].get("incident_id")]
    how = "the case belonged to a cluster incident" if shared else "no incident of the cluster absorbed the case"
    yield Cause("a shared cause of many nodes", not shared, how, _ids(shared))
    hot = [one for one in events if str(one["data"].get("failure_mode", "")).startswith(_ENVIRONMENT_MODES)]
    how = "reported beside the fault" if hot else "no thermal or power fault was reported in the time of the case"
    yield Cause("temperature or power", not hot, how, _ids(hot))
    slots = {(one.instance_id, one.slot) for one in history if one.kind == "fault"}
    how = f"the device failed in {len(slots)} slots" if slots else "the device has no serial number or UUID"
    yield Cause("the slot instead of the card", True if len(slots) > 1 else None, how)
    reporters = sorted({name for one in faults for name in one["data"]["reporters"]})
    how = f"{len(reporters)} sources report it: {', '.join(reporters)}" if reporters else "unknown"
    yield Cause("a wrong report of one source", True if len(reporters) > 1 else None, how, _ids(faults))


def _software(cause: str, action: str, steps: Sequence[Json]) -> Cause:
    tried = [
        one for one in steps if one["data"]["step"] == "repair_in_place" and one["data"]["repair_action"] == action
    ]
    failed = [
        one
        for one in steps
        if one["data"]["repair_action"] == action
        and one["data"]["step"] == "verify"
        and one["data"]["outcome"] == "failed"
    ]
    if failed:
        return Cause(cause, True, f"diagnostics failed after {action}", _ids((*tried, *failed)))
    how = f"diagnostics passed after {action}" if tried else f"{action} was not tried in this case"
    return Cause(cause, False if tried else None, how, _ids(tried))


def _ids(events: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(one["metadata"]["event_id"] for one in events)
