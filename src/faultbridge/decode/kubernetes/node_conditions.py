"""Decodes `kubernetes-node`, `node-problem-detector` and `eks-node-condition`.

Grammar: a node or a list of nodes as JSON, `kubectl describe`, kubectl's tables or YAML, or `kubectl get events -o
json` (`node_objects`). The mapping `conditions` translates a condition type and reason into a fault code. Times:
`lastTransitionTime` of a condition, or the time of an event, with a time zone. Units: none. Errors:
`Rejected(no_framing)` if the body has no condition list, event or table row of a node. Source: the Kubernetes API,
kubectl, the rules of node-problem-detector, GKE, AKS, HyperPod and the EKS agent.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.dcgm.texts import code_in_family, expand_families
from faultbridge.decode.frames.decoder import Hints, fault_of
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.instance_type import gpu_named_in, identifiers
from faultbridge.decode.frames.values import members
from faultbridge.decode.kubernetes.node_objects import (
    Condition,
    NodeConditions,
    NodeEvent,
    is_kubectl_table,
    is_node,
    node_reports,
)
from faultbridge.decode.line_source import status_code
from faultbridge.decode.nvsentinel import joined, node_observations
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot
from faultbridge.model.times import to_text
from faultbridge.model.values import replace

NODE_SOURCE = "kubernetes-node"
DETECTOR_SOURCE = "node-problem-detector"
EKS_SOURCE = "eks-node-condition"
_DETECTOR_COMPONENTS = (b"kernel-monitor", b"health-checker", b"system-log-monitor")
_GPU = Component(ComponentType.GPU)
_ON_DEVICES = ("gpu.nvidia.com/", "DeviceUnhealthy")
_OF_NODE = re.compile(r"UnexpectedAdmissionError|nvidia|nvml|cuda|\bcdi\b|/dev/|device", re.IGNORECASE)
_ON_GPUS = ("xid.", "dcgm.", "agent.gpu_unhealthy", "agent.double_bit_error", "smi.gpu_lost", "host.gpu_reset_required")


def decode(source: str, body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a health snapshot of each node that has a known condition or a fault, and faults of events.

    The source `kubernetes-node` reads the condition types of all sources, and any other source only the types that the
    mapping lists for it. A condition or event that the mapping does not contain is ignored by `kubernetes-node`. For
    another source, it is a fault if it is a warning event, or a true condition whose type does not end in `Ready` or
    `Healthy`.
    """
    mapped = mapping("conditions", hints.mappings)
    nodes = tuple(node_reports(text_of(body)))
    if not nodes:
        raise Rejected("no_framing", "no condition, event or table row of a Kubernetes node")
    listed = [node for node in nodes if isinstance(node, NodeConditions)]
    of_checks = tuple(node_observations(listed, source, hints)) if source == NODE_SOURCE else ()
    current = [one for node in listed if (one := _snapshot(source, node, mapped)) is not None]
    events = filter(None, (_of_event(source, event, mapped) for event in _without_app_failures(nodes)))
    return (*(joined((*current, *of_checks)) if of_checks else current), *events)


def _snapshot(source: str, node: NodeConditions, mapped: Mapping[str, Any]) -> Snapshot | None:
    covered: list[str] = []
    present: list[Fault] = []
    for condition in node.conditions:
        row = mapped["types"].get(condition.type)
        if row is None:
            is_wrong = condition.status == "True" and not condition.type.endswith(("Ready", "Healthy"))
            code = status_code(condition.message) or "agent.condition" if is_wrong and source != NODE_SOURCE else None
        elif source == NODE_SOURCE or source in row["sources"]:
            code = _wrong_code(condition, row, mapped)
            covered += _covered(condition, row)
        else:
            continue
        present += [_fault(source, code, condition, node)] if code else []
    if source == NODE_SOURCE:
        covered += _labels(node, mapped, present)
    return Snapshot(source, _covers(tuple(covered)), tuple(present), node=node.name) if covered or present else None


def _labels(node: NodeConditions, mapped: Mapping[str, Any], present: list[Fault]) -> Iterator[str]:
    for label, codes in mapped["labels"].items():
        value = node.labels.get(label)
        if value not in codes:
            continue
        yield from filter(None, codes.values())
        if codes[value]:
            condition = Condition(label.rpartition("/")[2], str(value))
            present.append(_fault(NODE_SOURCE, codes[value], condition, node))


def _of_event(source: str, event: NodeEvent, mapped: Mapping[str, Any]) -> Fault | None:
    code = _by_reason(event.reason, mapped)
    if code is None:
        is_wrong = event.warning and source != NODE_SOURCE
        code = status_code(event.message) or "agent.notice" if is_wrong else None
    if code is None:
        return None
    condition = Condition("event", "True", event.reason, event.message, event.at)
    fault = _fault(source, code, condition, NodeConditions(event.name))
    is_of_device = event.gpu or event.reason.startswith(_ON_DEVICES)
    return replace(fault, component=Component(ComponentType.GPU, uuid=event.gpu)) if is_of_device else fault


def _without_app_failures(reports: Iterable[NodeConditions | NodeEvent]) -> Iterator[NodeEvent]:
    """Yield the events, but of failed pods only one for each node, and only if the node can be the cause.

    A container that cannot start can be the fault of its image or command. The node can be the cause if it rejected
    the pod, if the message names a device or a driver, or if several pods fail.
    """
    pods: defaultdict[str | None, dict[str, NodeEvent]] = defaultdict(dict)
    for event in reports:
        if not isinstance(event, NodeEvent):
            continue
        if event.pod is None:
            yield event
        else:
            failed = pods[event.name].setdefault(event.pod, event)
            if _OF_NODE.search(f"{event.reason} {event.message}") and not _OF_NODE.search(str(failed.message)):
                pods[event.name][event.pod] = event
    for failures in pods.values():
        certain = [one for one in failures.values() if _OF_NODE.search(f"{one.reason} {one.message}")]
        if certain or len(failures) > 1:
            first = (certain or list(failures.values()))[0]
            others = f"{len(failures)} pods cannot start: {', '.join(list(failures)[:8])}. {first.message or ''}"
            yield replace(first, message=others.strip())


def names_condition_type(body: bytes, source: str) -> bool:
    """Return whether a body has a condition type of a source, and is probably not a whole node."""
    if is_node(body):
        return False
    if b"lastTransitionTime" not in body and b"lastHeartbeatTime" not in body:
        return False
    types = members(mapping("conditions", {})["types"])
    return any(source in row["sources"] and re.search(rb"\b%s\b" % name.encode(), body) for name, row in types.items())


def _wrong_code(condition: Condition, row: Mapping[str, Any], mapped: Mapping[str, Any]) -> str | None:
    """Return the fault code of a condition, or None if its status is the healthy status in `row`.

    `row` is the mapping's row for the condition type. The status `Unknown` is a fault only if the row has a code for
    it. Any other status has the code of its reason, or else the code of the row.
    """
    if condition.status == row["healthy"]:
        return None
    if condition.status == "Unknown":
        return row.get("unknown")
    code: str = _by_reason(condition.reason, mapped) or row["code"]
    return code


def _by_reason(reason: str | None, mapped: Mapping[str, Any]) -> str | None:
    if reason is None:
        return None
    if reason in mapped["reasons"]:
        return str(mapped["reasons"][reason])
    for row in mapped["reason_patterns"]:
        found = re.fullmatch(row["pattern"], reason)
        if found:
            return str(row["code"]) if "code" in row else code_in_family(row["family"], int(found[1]))
    return None


def _covered(condition: Condition, row: Mapping[str, Any]) -> Iterator[str]:
    if condition.status == "Unknown" and "unknown" not in row:
        return
    if "unknown" in row:
        yield row["unknown"]
    if condition.status != "Unknown":
        yield from (row["code"], *row.get("clears", ()))


@lru_cache(maxsize=256)
def _covers(families: tuple[str, ...]) -> Mapping[str, tuple[Component, ...]]:
    """Return the codes of families, each with its component. The nodes of a cluster have the same few conditions."""
    on_gpus, on_node = (_GPU,), (NODE_COMPONENT,)
    return {code: on_gpus if _component(code) is _GPU else on_node for code in expand_families(families)}


def _fault(source: str, code: str, condition: Condition, node: NodeConditions) -> Fault:
    statement = f"{condition.type} is {condition.status}" if condition.type != "event" else str(condition.reason)
    text = ": ".join(part for part in (statement, condition.message) if part)
    component = _component(code)
    named = identifiers(gpu_named_in(condition.message)) if component is _GPU else {}
    raw = ", ".join(part for part in (statement, condition.reason, condition.message) if part)
    since = to_text(condition.changed_at) if condition.changed_at else None
    stated = {"condition": condition.type, "status": condition.status, "reason": condition.reason, "since": since}
    return fault_of(source, code, component, text, raw, condition.changed_at, node.name, **stated, **named)


def _component(code: str) -> Component:
    """Return the component of a fault code: an unidentified GPU for a GPU code, else the node."""
    return _GPU if code.startswith(_ON_GPUS) else NODE_COMPONENT


_OF_DEVICES = re.compile(
    rb'\btaints\b"?:|"allocatedResourcesStatus"|UnexpectedAdmissionError|(?:Run|Create)ContainerError|StartError'
)


def recognize(source: str, body: bytes) -> bool:
    """Return whether a body is probably of a source: a whole node or a table, or conditions that the source writes."""
    others = {NODE_SOURCE: (EKS_SOURCE, DETECTOR_SOURCE), DETECTOR_SOURCE: (EKS_SOURCE,)}
    is_whole = is_node(body)
    is_event = b"involvedObject" in body and not is_whole
    if source == EKS_SOURCE:
        found = (is_event and b"eks-node-monitoring-agent" in body) or b"sending condition to exporter" in body
    elif source == DETECTOR_SOURCE:
        found = is_event and any(component in body for component in _DETECTOR_COMPONENTS)
        found = found and not names_condition_type(body, EKS_SOURCE)
    else:
        found = is_whole or b"LastTransitionTime" in body or is_kubectl_table(text_of(body))
        of_devices = re.search(rb'"kind": ?"(?:ResourceSlice|Pod)"|kind: ResourceSlice', body) and _OF_DEVICES.search(
            body
        )
        found = found or of_devices is not None
    return found or (
        names_condition_type(body, source)
        and not any(names_condition_type(body, other) for other in others.get(source, ()))
    )
