"""Reads Kubernetes nodes and events from the output of the API and of kubectl."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.documents import objects
from faultbridge.decode.frames.values import EMPTY, members, objects_in, text

_HYPERPOD_NAME = re.compile(r"hyperpod-(i-[0-9a-f]{8,17})")
_YAML_FIELD = re.compile(r"[- ] {1,8}(\w{1,64}): {0,4}(.{0,4096})$")
_COLUMNS = re.compile(r" {2,64}")
_STATUSES = frozenset({"True", "False", "Unknown"})
_LABELS = "node-health-status"
_TABLE = re.compile(
    r"^(?:NAMESPACE +)?(?:NAME +STATUS +ROLES|LAST SEEN +TYPE +REASON +OBJECT"
    r"|NAME +READY +STATUS +RESTARTS.{1,64} NODE)\b",
    re.MULTILINE,
)
_UUID = re.compile(r"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{1,12}){0,4}")
# What the EKS node monitoring agent logs when it reports a condition, and when it ends one.
_SENT, _RESOLVED = "sending condition to exporter", "resolved condition"
# A pod with one of these reasons was rejected by its node, or its container could not start there.
_POD_REASONS = frozenset({"UnexpectedAdmissionError", "RunContainerError", "CreateContainerError", "StartError"})
_CONTAINER_STATES = (("state", "waiting"), ("state", "terminated"), ("lastState", "terminated"))
# The taints of NVIDIA's DRA driver, apart from the one that names an Xid.
_DRIVER = "gpu.nvidia.com/"
_TAINTS = frozenset({f"{_DRIVER}gpu-lost", f"{_DRIVER}unmonitored"})


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a Kubernetes node. `changed_at` is its last transition time."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    changed_at: datetime | None = None
    checked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeConditions:
    """The conditions and labels of one node. `name` is None if the input does not name the node."""

    name: str | None
    conditions: tuple[Condition, ...] = ()
    labels: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One Kubernetes event about one node, its pods or its devices. `warning` is True unless its type is `Normal`."""

    name: str | None
    reason: str
    message: str | None
    at: datetime | None
    warning: bool
    gpu: str | None = None
    pod: str | None = None


def node_name(name: str | None) -> str | None:
    """Return the instance id in a HyperPod node name. Other names are returned unchanged."""
    found = _HYPERPOD_NAME.fullmatch(name or "")
    return found[1] if found else name


def node_reports(body: str) -> Iterator[NodeConditions | NodeEvent]:
    """Yield the nodes and events of an input, or nothing if its format is not known."""
    if body.lstrip()[:1] in {"{", "["}:
        yield from _of_json(body)
    elif is_kubectl_table(body):
        yield from _of_table(body)
    elif "LastTransitionTime" in body:
        yield from _of_description(body)
    else:
        yield from _of_yaml(body)


def is_node(body: bytes) -> bool:
    """Return whether a body probably contains a Kubernetes node object."""
    # A collector that wraps the lines of a document escapes its quotes.
    body = body.replace(b'\\"', b'"') if b'\\"kind' in body else body
    return b'"kind"' in body and b'"Node"' in body and (b'"involvedObject"' not in body or b'"nodeInfo"' in body)


def items_of(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the items of a Kubernetes list, or the document itself if it is not a list."""
    return tuple(objects_in(document.get("items"))) if "items" in document else (document,)


def is_kubectl_table(body: str) -> bool:
    """Return whether a text has the heading of kubectl's table of nodes, events or pods."""
    return _TABLE.search(body) is not None


def _of_json(body: str) -> Iterator[NodeConditions | NodeEvent]:
    bare: dict[tuple[str, str | None], Condition] = {}
    for _, document in objects(body):
        for item in items_of(document):
            found = _condition(item) or _event(item) or _logged(item)
            if isinstance(found, Condition):
                if found.status == "True":  # the agent found that the hardware has recovered
                    bare = {key: one for key, one in bare.items() if found.reason or key[0] != found.type}
                bare[found.type, found.reason] = found
            elif found is not None:
                yield found
            elif item.get("kind") in ("Pod", "ResourceSlice"):
                yield from _of_pod(item) if item["kind"] == "Pod" else _of_slice(item)
            elif (node := node_conditions(item)) is not None:
                yield node
    if bare:
        yield NodeConditions(None, tuple(bare.values()))


def _logged(item: Mapping[str, Any]) -> Condition | NodeEvent | None:
    """Return the event, or the fatal condition, that the EKS node monitoring agent logs when it sets or ends it."""
    condition, said, at = members(item.get("condition")), text(item.get("msg"), 64), instant(item.get("ts"))
    kind, severity = text(item.get("conditionType"), 128), condition.get("Severity")
    reason, message = text(condition.get("Reason"), 512), text(condition.get("Message"))
    if said == _SENT and kind is not None and severity == "Fatal":
        return Condition(kind, "False", reason, message, at)
    if said == _SENT and reason is not None:
        return NodeEvent(None, reason[:128], message, at, severity == "Warning")
    is_over = said == _RESOLVED and severity == "Fatal" and item.get("recovered") is True
    return Condition(kind, "True", changed_at=at) if kind is not None and is_over else None


def _of_pod(pod: Mapping[str, Any]) -> Iterator[NodeEvent]:
    """Yield the reasons for which a pod cannot start on its node, and the unhealthy devices that it has."""
    status, metadata = members(pod.get("status")), members(pod.get("metadata"))
    node, name = text(members(pod.get("spec")).get("nodeName"), 253), text(metadata.get("name"), 253) or "?"
    containers = [one for key in ("initContainerStatuses", "containerStatuses") for one in objects_in(status.get(key))]
    states = [members(members(one.get(key)).get(state)) for one in containers for key, state in _CONTAINER_STATES]
    for stated in (status, *states):
        reason = text(stated.get("reason"), 128)
        if node and reason in _POD_REASONS:
            yield NodeEvent(node, reason, text(stated.get("message")), instant(status.get("startTime")), True, pod=name)
    for resource in (found for one in containers for found in objects_in(one.get("allocatedResourcesStatus"))):
        for device in objects_in(resource.get("resources")):
            if node and device.get("health") == "Unhealthy":
                message = f"{text(resource.get('name'), 253)} {text(device.get('resourceID'), 253)} is unhealthy"
                uuid = _UUID.search(message)
                yield NodeEvent(node, "DeviceUnhealthy", message, None, True, uuid[0] if uuid else None)


def _of_slice(document: Mapping[str, Any]) -> Iterator[NodeEvent]:
    """Yield the taints of the devices in a ResourceSlice, each with its key and value as its reason."""
    spec = members(document.get("spec"))
    for device in objects_in(spec.get("devices")):
        basic = members(device.get("basic")) or device
        uuid = text(members(members(basic.get("attributes")).get("uuid")).get("string"), 64)
        for taint in objects_in(basic.get("taints")):
            key, value = text(taint.get("key"), 128) or "", text(taint.get("value"), 64) or ""
            name = text(device.get("name"), 128) or "a device"
            message = f"{name} has the taint {key}={value}:{text(taint.get('effect'), 32)}"
            reason = f"{key}={value}" if key.endswith("/xid") else key if key in _TAINTS else "DeviceUnhealthy"
            if taint.get("effect") != "None" or reason != "DeviceUnhealthy":
                node, at = node_name(text(spec.get("nodeName"), 253)), instant(taint.get("timeAdded"))
                yield NodeEvent(node, reason, message, at, True, uuid if uuid and uuid.startswith("GPU-") else None)


def node_conditions(item: Mapping[str, Any]) -> NodeConditions | None:
    """Return the conditions and labels of a node, or None for an object without conditions."""
    status = members(item.get("status"))
    listed = status.get("conditions", item.get("conditions"))
    if not isinstance(listed, list):
        return None
    conditions = (_condition(item) for item in objects_in(listed))
    metadata = members(item.get("metadata"))
    name = node_name(text(metadata.get("name"), 253))
    return NodeConditions(name, tuple(item for item in conditions if item), members(metadata.get("labels")))


def _condition(item: Mapping[str, Any]) -> Condition | None:
    kind, status = text(item.get("type"), 128), text(item.get("status"), 16)
    if kind is None or status not in _STATUSES:
        return None
    changed_at, reason = instant(item.get("lastTransitionTime")), text(item.get("reason"), 512)
    # NVSentinel sets it to the time of the last event of a check; other agents only show that they run.
    checked_at = instant(item.get("lastHeartbeatTime")) if reason and reason.endswith("Healthy") else None
    return Condition(kind, status, reason, text(item.get("message")), changed_at, checked_at)


def _event(item: Mapping[str, Any]) -> NodeEvent | None:
    about = members(item.get("involvedObject") or item.get("regarding"))
    reason, kind = text(item.get("reason"), 128), about.get("kind")
    host = text(members(item.get("source")).get("host") or item.get("reportingInstance"), 253)
    of_pod = kind == "Pod" and reason in _POD_REASONS and host is not None
    if reason is None or (kind != "Node" and not of_pod):
        return None
    series = members(item.get("series"))
    times = (
        series.get("lastObservedTime"),
        item.get("lastTimestamp"),
        item.get("eventTime"),
        item.get("firstTimestamp"),
    )
    at = next((found for item in times if (found := instant(item)) is not None), None)
    message = text(item.get("message")) or text(item.get("note"))
    name = text(about.get("name"), 253)
    is_warning = item.get("type") != "Normal"
    return NodeEvent(node_name(host if of_pod else name), reason, message, at, is_warning, pod=name if of_pod else None)


def _of_yaml(body: str) -> Iterator[NodeConditions | NodeEvent]:
    """Yield one unnamed node with all conditions in `kubectl -o yaml` output, and the tainted devices of a slice."""
    found: list[Condition] = []
    devices: list[dict[str, Any]] = []
    fields: dict[str, str] = {}
    uuid = node = None
    for line in [*body.splitlines(), "- end: of list"]:
        entry = line.strip() if line[:1] == " " else line
        field_match = _YAML_FIELD.match(entry if entry.startswith("- ") else f"  {entry}")
        if field_match is None:
            continue
        if entry.startswith("- ") and (condition := _condition(fields)) is not None:
            found.append(condition)
        elif entry.startswith("- ") and fields.get("key", "").startswith(_DRIVER):
            devices.append({"attributes": {"uuid": {"string": uuid}}, "taints": [fields]})
        fields = {} if entry.startswith("- ") else fields
        fields[field_match[1]] = value = field_match[2].strip().strip("\"'")
        uuid, node = value if _UUID.fullmatch(value) else uuid, value if field_match[1] == "nodeName" else node
    if found:
        yield NodeConditions(None, tuple(found))
    yield from _of_slice({"spec": {"nodeName": node, "devices": devices}})


def _of_description(body: str) -> Iterator[NodeConditions | NodeEvent]:
    name, found = None, []
    for line in body.splitlines():
        cells = _COLUMNS.split(line.strip()[:8192])
        if cells[0] == "Name:" and len(cells) > 1:
            name = cells[1]
        elif len(cells) >= 5 and cells[1] in _STATUSES:  # noqa: PLR2004 - type, status, two times, reason
            changed_at = instant(cells[3])
            found.append(Condition(cells[0][:128], cells[1], cells[4][:512], " ".join(cells[5:]) or None, changed_at))
        elif cells[0] in {"Normal", "Warning"} and len(cells) >= 5:  # noqa: PLR2004 - type, reason, age, source, text
            yield NodeEvent(node_name(name), cells[1], " ".join(cells[4:]), None, cells[0] == "Warning")
    if found:
        yield NodeConditions(node_name(name), tuple(found))


def _of_table(body: str) -> Iterator[NodeConditions | NodeEvent]:
    heading: list[str] = []
    for line in body.splitlines():
        if _TABLE.match(line):
            heading = _COLUMNS.split(line.strip())
        elif heading and line.strip():
            # Only the message of an event, the last column, can have runs of spaces.
            cells = _COLUMNS.split(line[:8192].strip(), len(heading) - 1)
            yield from _of_row(dict(zip(heading, cells, strict=False)))
        else:
            heading = []


def _of_row(row: Mapping[str, str]) -> Iterator[NodeConditions | NodeEvent]:
    kind, _, name = row.get("OBJECT", "").partition("/")
    host = row.get("SOURCE", "").rpartition(", ")[2] if ", " in row.get("SOURCE", "") else None
    if kind in {"node", "pod"} and "REASON" in row:
        of_pod = kind == "pod"
        if not of_pod or (host and row["REASON"] in _POD_REASONS):
            node = node_name(host if of_pod else name)
            warning, pod = row.get("TYPE") != "Normal", name if of_pod else None
            yield NodeEvent(node, row["REASON"], row.get("MESSAGE"), None, warning, pod=pod)
    elif "ROLES" in row:
        ready = {"Ready": "True", "NotReady": "False"}.get(row["STATUS"].split(",")[0])
        health = row.get("NODE-HEALTH-STATUS")
        labels = {f"sagemaker.amazonaws.com/{_LABELS}": health} if health else EMPTY
        yield NodeConditions(node_name(row["NAME"]), (Condition("Ready", ready),) if ready else (), labels)
    elif row.get("STATUS") in _POD_REASONS and row.get("NODE", "<none>") != "<none>":
        yield NodeEvent(node_name(row["NODE"]), row["STATUS"], None, None, warning=True, pod=row.get("NAME"))
