"""Reads Kubernetes nodes and events from the output of the API and of kubectl."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from typing import Any

from faultbridge.decode.frames.clock import instant
from faultbridge.decode.frames.decoder import EMPTY, members, objects_in, text
from faultbridge.decode.frames.documents import objects
from faultbridge.model.dataclass import dataclass

_HYPERPOD_NAME = re.compile(r"hyperpod-(i-[0-9a-f]{8,17})")
_YAML_FIELD = re.compile(r"[- ] {1,8}(\w{1,64}): {0,4}(.{0,4096})$")
_COLUMNS = re.compile(r" {2,64}")
_STATUSES = frozenset({"True", "False", "Unknown"})
_LABELS = "node-health-status"


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a Kubernetes node. `changed_at` is its last transition time."""

    type: str
    status: str
    reason: str | None = None
    message: str | None = None
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeConditions:
    """The conditions and labels of one node. `name` is None if the input does not name the node."""

    name: str | None
    conditions: tuple[Condition, ...] = ()
    labels: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One Kubernetes event about one node. `warning` is True unless the type of the event is `Normal`."""

    name: str | None
    reason: str
    message: str | None
    at: datetime | None
    warning: bool


def node_name(name: str | None) -> str | None:
    """Return the instance id in a HyperPod node name. Other names are returned unchanged."""
    found = _HYPERPOD_NAME.fullmatch(name or "")
    return found[1] if found else name


def node_reports(body: str) -> Iterator[NodeConditions | NodeEvent]:
    """Yield the nodes and events of an input, or nothing if its format is not known."""
    if body.lstrip()[:1] in {"{", "["}:
        yield from _of_json(body)
    elif re.search(r"^NAME +STATUS +ROLES", body, re.MULTILINE):
        yield from _of_table(body)
    elif "LastTransitionTime" in body:
        yield from _of_description(body)
    else:
        yield from _of_yaml(body)


def is_node(body: bytes) -> bool:
    """Return whether a body probably contains a Kubernetes node object.

    A Kubernetes event does not count, because it only refers to a node.
    """
    # A collector that wraps the lines of a document escapes its quotes.
    body = body.replace(b'\\"', b'"') if b'\\"kind' in body else body
    return b'"kind"' in body and b'"Node"' in body and (b'"involvedObject"' not in body or b'"nodeInfo"' in body)


def items_of(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the items of a Kubernetes list, or the document itself if it is not a list."""
    return tuple(objects_in(document.get("items"))) if "items" in document else (document,)


def _of_json(body: str) -> Iterator[NodeConditions | NodeEvent]:
    bare: list[Condition] = []
    for _, document in objects(body):
        for item in items_of(document):
            found = _condition(item)
            if found is not None:
                bare.append(found)
            elif (event := _event(item)) is not None:
                yield event
            elif (node := _node(item)) is not None:
                yield node
    if bare:
        yield NodeConditions(None, tuple(bare))


def _node(item: Mapping[str, Any]) -> NodeConditions | None:
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
    changed_at = instant(item.get("lastTransitionTime"))
    return Condition(kind, status, text(item.get("reason"), 512), text(item.get("message")), changed_at)


def _event(item: Mapping[str, Any]) -> NodeEvent | None:
    about = members(item.get("involvedObject") or item.get("regarding"))
    reason = text(item.get("reason"), 128)
    if about.get("kind") != "Node" or reason is None:
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
    return NodeEvent(node_name(text(about.get("name"), 253)), reason, message, at, item.get("type") != "Normal")


def _of_yaml(body: str) -> Iterator[NodeConditions]:
    """Yield one unnamed node with all conditions in `kubectl -o yaml` output. Other YAML yields nothing."""
    found: list[Condition] = []
    fields: dict[str, str] = {}
    for line in [*body.splitlines(), "- end: of list"]:
        entry = line.strip() if line[:1] == " " else line
        field_match = _YAML_FIELD.match(entry if entry.startswith("- ") else f"  {entry}")
        if field_match is None:
            continue
        if entry.startswith("- ") and (condition := _condition(fields)) is not None:
            found.append(condition)
        fields = {} if entry.startswith("- ") else fields
        fields[field_match[1]] = field_match[2].strip().strip("\"'")
    if found:
        yield NodeConditions(None, tuple(found))


def _of_description(body: str) -> Iterator[NodeConditions]:
    name, found = None, []
    for line in body.splitlines():
        cells = _COLUMNS.split(line.strip()[:8192])
        if cells[0] == "Name:" and len(cells) > 1:
            name = cells[1]
        elif len(cells) >= 5 and cells[1] in _STATUSES:  # noqa: PLR2004 - type, status, two times, reason
            changed_at = instant(cells[3])
            found.append(Condition(cells[0][:128], cells[1], cells[4][:512], " ".join(cells[5:]) or None, changed_at))
    if found:
        yield NodeConditions(node_name(name), tuple(found))


def _of_table(body: str) -> Iterator[NodeConditions]:
    heading: list[str] = []
    for line in body.splitlines():
        cells = line[:4096].split()
        if cells[:2] == ["NAME", "STATUS"]:
            heading = cells
        elif heading and len(cells) == len(heading):
            row = dict(zip(heading, cells, strict=True))
            ready = {"Ready": "True", "NotReady": "False"}.get(row["STATUS"].split(",")[0])
            health = row.get("NODE-HEALTH-STATUS")
            labels = {f"sagemaker.amazonaws.com/{_LABELS}": health} if health else EMPTY
            yield NodeConditions(node_name(row["NAME"]), (Condition("Ready", ready),) if ready else (), labels)
