"""Computes the documents of a case file from its entries: `form.json`, `form.html` and `history.json`.

The form is that of a hardware return (RMA): fields with the entries that state them, and the causes that were excluded.
The program needs only the standard library. It is in each case file, and `verify_case.py` has its hash: a reader
computes the documents again, and compares them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

Json = dict[str, Any]
"""Also an entry: its `metadata`, its `data` and `evidence`, the raw text that it reports, or null."""

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
_KINDS = {"Node Fault Detected": "fault", "Node Fault Cleared": "cleared"}
_VERDICTS = {"passed", "failed", "inconclusive"}
_CASE_ENDS = {"escalated", "resolved", "expired"}

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Case %s</title>
<style>
body { font: 14px/1.45 system-ui, sans-serif; color: #1a1a1a; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; }
h2 { font-size: 1.05rem; margin: 1.5rem 0 .4rem; border-bottom: 2px solid #1a1a1a; }
table { border-collapse: collapse; width: 100%%; table-layout: fixed; } td { overflow-wrap: anywhere; }
th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid #ccc; }
th { width: 32%%; font-weight: 600; } .unknown { color: #777; font-style: italic; } .yes { font-weight: 600; }
td.entry { width: 7rem; color: #555; font: 11px/1.5 ui-monospace, monospace; } p.lead { margin: 0; color: #333; }
pre { background: #f3f3f3; padding: .5rem; white-space: pre-wrap; overflow-wrap: anywhere; }
@media print { body { margin: 0; max-width: none; } h2 { break-after: avoid; } tr, pre { break-inside: avoid; } }
</style>
</head>
<body>
"""


def documents(case: Json, entries: Sequence[Json], catalog: Mapping[str, Json], state: Json) -> dict[str, str]:
    """Return the documents of a case file by their names.

    `case` is `case.json`, and `entries` are all entries of the file. `state` is what the state of the case says. A form
    has it only if the file has no opening of the case; the verifier refuses such a file.
    """
    stream = [one for one in entries if one["metadata"]["stream"] == case["stream"]]
    found = stream[first_fault(stream, case["case_id"]) :]
    own = [one for one in found if one["metadata"]["case_id"] == case["case_id"]]
    opened = opening(own)
    if opened is None:
        fields, causes, history = list(_of_state(state)), [], []
    else:
        faults = [one for one in found if _is_fault_of(one, opened["data"]["cause"])]
        causes_of_case = [one["data"]["cause"] for one in own if one["data"].get("cause")]
        history = device_history(entries, causes_of_case[-1]["component"])
        hardware = (*_hardware(opened, faults), *_fault_fields(faults, catalog))
        fields = [*hardware, *_actions(own), *_history_fields(history)]
        causes = list(_causes(own, found, faults, history))
    form = {"case_id": case["case_id"], "fields": fields, "causes": causes, "missing": case["missing"]}
    texts = [one["evidence"] for one in found if one["evidence"]]
    resolutions = [one["data"].get("resolution") for one in own if "resolution" in one["data"]] or [None]
    return {
        "form.json": json.dumps(form, indent=1, ensure_ascii=False),
        "form.html": "".join(_html(case, form, resolutions[-1], texts)),
        "history.json": json.dumps(history, indent=1, ensure_ascii=False),
    }


def opening(own: Iterable[Json]) -> Json | None:
    """Return the entry that opened a case, or None if it is not among the entries of the case."""
    return next((one for one in own if one["data"].get("cause") and one["data"]["from"] is None), None)


def first_fault(stream: Sequence[Json], case_id: str) -> int:
    """Return the place of the last report of a case's cause before its opening, else of the case's first entry."""
    own = [place for place, one in enumerate(stream) if one["metadata"]["case_id"] == case_id]
    start = own[0] if own else len(stream)
    cause: Json = next((one["data"]["cause"] for one in stream[start:] if "cause" in one["data"]), {})
    for place in range(start, -1 if cause else start, -1):
        of = stream[place]
        is_detected = of["metadata"]["event_type"] == "Node Fault Detected"
        if is_detected and of["data"]["failure_mode"] == cause["failure_mode"]:
            return place
    return start


def _field(section: str, name: str, value: object, entry: str | None = None, path: Sequence[str] = ()) -> Json:
    """Return a field of the form: its value, and the entry and the path in its data that state it; null if unknown."""
    return {"section": section, "name": name, "value": value, "entry": entry, "path": list(path)}


def _of_state(state: Json) -> Iterator[Json]:
    """Yield what the state of a case still states, without an entry that proves it."""
    yield from (_field("Hardware", label, state["component"][name]) for name, label in _COMPONENT.items())
    yield from (_field("Fault", _FAULT[name], state[name]) for name in ("failure_mode", "code"))


def _is_fault_of(entry: Json, cause: Json) -> bool:
    reported = entry["metadata"]["event_type"] in {"Node Fault Detected", "Node Fault Updated"}
    return reported and bool(entry["data"]["failure_mode"] == cause["failure_mode"])


def _stated(section: str, name: str, entry: Json, *path: str) -> Json:
    value = entry["data"]
    for part in path:
        value = (value or {}).get(part)
    if value is None:
        return _field(section, name, None)
    return _field(section, name, value, entry["metadata"]["event_id"], path)


def _hardware(opened: Json, faults: Sequence[Json]) -> Iterator[Json]:
    source = faults[-1] if faults else opened
    at = ("component",) if faults else ("cause", "component")
    yield from (_stated("Hardware", label, source, *at, name) for name, label in _COMPONENT.items())
    yield _stated("Hardware", "Instance", opened, "incarnation", "instance_id")
    yield from (_stated("Hardware", label, opened, "placement", name) for name, label in _PLACE.items())
    for label, names in _VERSIONS.items():
        found = ((fault, name) for fault in faults for name in names if name in fault["data"]["attributes"])
        fault, name = next(found, (opened, ""))
        yield _stated("Hardware", label, fault, "attributes", name) if name else _field("Hardware", label, None)


def _fault_fields(faults: Sequence[Json], catalog: Mapping[str, Json]) -> Iterator[Json]:
    if not faults:
        yield _field("Fault", "Fault", None)
        return
    yield from (_stated("Fault", label, faults[0], name) for name, label in _FAULT.items())
    yield _stated("Fault", "Last seen", faults[-1], "observed_at")
    yield _stated("Fault", "Observations", faults[-1], "count")
    yield _field("Fault", "Meaning", catalog.get(faults[0]["data"]["code"], {}).get("name"))
    for fault in faults:
        if fault["data"].get("evidence_sha256"):
            yield _stated("Fault", "Hash of the raw text", fault, "evidence_sha256")


def _actions(own: Iterable[Json]) -> Iterator[Json]:
    for entry in own:
        data, kind = entry["data"], entry["metadata"]["event_type"]
        if kind == "Node Note Recorded" and data["kind"] == "approval" and "order" in data["facts"]:
            yield _stated("Actions", f"Approval ({data['facts']['order']})", entry, "operator")
        if kind != "Node Replacement Step":
            continue
        at = entry["metadata"]["occurred_at"]
        if data["step"] == "collect" and "bundle" in data["facts"]:
            yield _stated("Actions", f"Log bundle, {at}", entry, "facts", "bundle")
        if data["step"] == "intent":
            yield _stated("Actions", f"Repair decided, {at}", entry, "repair_action")
        if data["step"] in {"repair_in_place", "release_instance"}:
            yield _stated("Actions", f"Result of {data['repair_action']}, {at}", entry, "outcome")
        if data["step"] == "verify" and data["outcome"] != "begun":
            yield _stated("Actions", f"Diagnostics on {data['new_instance'] or 'the instance'}, {at}", entry, "outcome")
            if data["facts"].get("findings"):
                yield _stated("Actions", "Findings of the diagnostics", entry, "facts", "findings")


def _history_fields(history: Sequence[Json]) -> Iterator[Json]:
    faults = [one for one in history if one["kind"] == "fault"]
    places = {(one["instance_id"], one["slot"]) for one in history if one["instance_id"]}
    yield _field("Device history", "Faults of the device in the record", len(faults) if history else None)
    yield _field("Device history", "Slots in which it was", len(places) if history else None)


def device_history(entries: Sequence[Json], device: Json) -> list[Json]:
    """Return what the entries say about a device (its component), oldest line first, as `faultbridge device` does."""
    lines = [line for entry in entries for line in _lines(entry, device)]
    instances: dict[str, set[str | None]] = {}
    for line in lines:
        if line["case_id"]:
            instances.setdefault(line["case_id"], set()).add(line["instance_id"])
    for entry in entries:
        case, data = entry["metadata"]["case_id"], entry["data"]
        if case in instances and entry["metadata"]["event_type"] == "Node Replacement Step":
            if data["step"] == "intent":
                lines.append(
                    _line(entry, "repair", f"{data['repair_action']} {data['outcome']}", data["old_instance"], None)
                )
            elif data["step"] == "verify" and data["outcome"] in _VERDICTS and data["new_instance"] in instances[case]:
                lines.append(_line(entry, "verdict", f"diagnostics {data['outcome']}", data["new_instance"], None))
    return sorted(lines, key=lambda one: str(one["at"]))


def is_about(entry: Json, device: Json) -> bool:
    """Return whether an entry gives the history of a device a line."""
    return next(_lines(entry, device), None) is not None


def _lines(entry: Json, device: Json) -> Iterator[Json]:
    data, kind = entry["data"], entry["metadata"]["event_type"]
    if kind == "Node Note Recorded" and data["kind"] == "devices":
        for seen in data["facts"]["devices"]:
            if _is_same(seen, device):
                instance = data["facts"]["instance_id"]
                yield _line(entry, "seen", "first seen in this instance", instance, seen["pci"])
    component = data.get("component") or (data.get("cause") or {}).get("component")
    if not component or not _is_same(component, device):
        return
    if kind in _KINDS:
        instance = (data["incarnation"] or {}).get("instance_id") if kind == "Node Fault Detected" else None
        yield _line(entry, _KINDS[kind], f"{data['severity']} {data['code']}", instance, component["pci"])
    if kind == "Case Status Change" and (data["from"] is None or data["to"] in _CASE_ENDS):
        result = f", {data['resolution']}" if data["resolution"] else ""
        text = f"{data['to']}: {data['cause']['code']}, {data['repair_action']}{result}"
        yield _line(entry, "case", text, None, component["pci"])


def _is_same(one: Json, device: Json) -> bool:
    name = "uuid" if one["uuid"] and device["uuid"] else "serial"
    return bool(device[name] and one[name] == device[name])


def _line(entry: Json, kind: str, text: str, instance: str | None, slot: str | None) -> Json:
    of = entry["metadata"]
    names = {"cluster": of["cluster"], "node": of["node"], "instance_id": instance, "slot": slot, "text": text}
    return {"at": of["occurred_at"], "kind": kind, **names, "case_id": of["case_id"], "event_id": of["event_id"]}


def _cause(cause: str, is_excluded: object, how: str, entries: Iterable[Json] = ()) -> Json:
    """Return a common cause other than the hardware: whether it was excluded (null: unknown), how, by which entries."""
    ids = [one["metadata"]["event_id"] for one in entries]
    return {"cause": cause, "excluded": is_excluded, "how": how, "entries": ids}


def _causes(
    own: Sequence[Json], found: Sequence[Json], faults: Sequence[Json], history: Sequence[Json]
) -> Iterator[Json]:
    steps = [one for one in own if one["metadata"]["event_type"] == "Node Replacement Step"]
    for action, cause in _SOFTWARE_STEPS.items():
        yield _software(cause, action, steps)
    shared = [one for one in own if one["data"].get("incident_id")]
    how = "the case belonged to a cluster incident" if shared else "no incident of the cluster absorbed the case"
    yield _cause("a shared cause of many nodes", not shared, how, shared)
    hot = [one for one in found if str(one["data"].get("failure_mode", "")).startswith(_ENVIRONMENT_MODES)]
    how = "reported beside the fault" if hot else "no thermal or power fault was reported in the time of the case"
    yield _cause("temperature or power", not hot, how, hot)
    slots = {(one["instance_id"], one["slot"]) for one in history if one["kind"] == "fault"}
    how = f"the device failed in {len(slots)} slots" if slots else "the device has no serial number or UUID"
    yield _cause("the slot instead of the card", True if len(slots) > 1 else None, how)
    reporters = sorted({name for one in faults for name in one["data"]["reporters"]})
    how = f"reported by {', '.join(reporters)}" if reporters else "unknown"
    yield _cause("a wrong report of one source", True if len(reporters) > 1 else None, how, faults)


def _software(cause: str, action: str, steps: Sequence[Json]) -> Json:
    of_action = [one for one in steps if one["data"]["repair_action"] == action]
    tried = [one for one in of_action if one["data"]["step"] == "repair_in_place"]
    failed = [one for one in of_action if (one["data"]["step"], one["data"]["outcome"]) == ("verify", "failed")]
    if failed:
        return _cause(cause, True, f"diagnostics failed after {action}", (*tried, *failed))
    how = f"diagnostics passed after {action}" if tried else f"{action} was not tried in this case"
    return _cause(cause, False if tried else None, how, tried)


def _html(case: Json, form: Json, resolution: str | None, texts: Sequence[str]) -> Iterator[str]:
    code = next((one["value"] for one in form["fields"] if one["name"] == "Fault code"), None)
    yield _HEAD % escape(case["case_id"])
    yield f"<h1>Hardware return: {escape(code or 'unknown fault')} on {escape(case['node'])}</h1>\n"
    end = escape(", ".join((case["status"], *([resolution] if resolution else []))))
    yield f'<p class="lead">Cluster {escape(case["cluster"])}, case {escape(case["case_id"])}, {end}.\n'
    yield "Each value names the entry of the record that states it; <code>python3 verify_case.py case.zip</code>\n"
    yield "checks the record.</p>\n"
    if form["missing"]:
        yield f'<p class="yes">Incomplete: {escape(form["missing"])}.</p>\n'
    for title in dict.fromkeys(one["section"] for one in form["fields"]):
        fields = [one for one in form["fields"] if one["section"] == title]
        yield from _table(title, ((one["name"], _value(one["value"]), [one["entry"] or ""]) for one in fields))
    results = {None: '<span class="unknown">not decided</span>', True: '<span class="yes">excluded</span>'}
    rows = ((one, results.get(one["excluded"], "not excluded")) for one in form["causes"])
    others = ((one["cause"], f"{result}: {escape(one['how'])}", one["entries"]) for one, result in rows)
    yield from _table("Other causes", others)
    yield "<h2>Raw text</h2>\n"
    yield from (f"<pre>{escape(text)}</pre>\n" for text in texts)
    yield "</body>\n</html>\n" if texts else '<p class="unknown">no raw text is stored</p>\n</body>\n</html>\n'


def _table(title: str, rows: Iterable[tuple[str, str, Sequence[str]]]) -> Iterator[str]:
    yield f"<h2>{escape(title)}</h2>\n"
    yield '<table><colgroup><col style="width: 32%"><col><col style="width: 7rem"></colgroup>\n'
    for name, value, ids in rows:
        yield f'<tr><th scope="row">{escape(name)}</th>\n<td>{value}</td>\n'
        yield f'<td class="entry">{escape(" ".join(one[:13] for one in ids))}</td></tr>\n'
    yield "</table>\n"


def _value(value: object) -> str:
    if value is None:
        return '<span class="unknown">unknown</span>'
    return escape(", ".join(map(str, value)) if isinstance(value, list) else str(value))
