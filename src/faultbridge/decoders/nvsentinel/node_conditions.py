"""Reads the conditions that NVSentinel writes to a Kubernetes node.

The type of a condition is the name of the check, and status True means unhealthy. The reason is the type followed by
`IsNotHealthy` or `IsHealthy`. The message lists the errors. NVSentinel truncates the message, so an error can exist
even if the message does not contain it. The heartbeat time is the time of the last health event of the check.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from faultbridge.decoders.common.clock import instant
from faultbridge.decoders.common.fields import members, objects_in, text
from faultbridge.decoders.kubernetes.node_objects import NodeConditions, node_name
from faultbridge.decoders.nvsentinel.event import HealthEvent, condition_events
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import NODE_COMPONENT, Component, ComponentType, Fault, Observation, Snapshot

# The reason of a condition that NVSentinel wrote, in a document.
IS_CHECKED = re.compile(r"\b\w{1,64}Is(?:Not)?Healthy\b")

_UNNAMED = {kind: Component(kind) for kind in (ComponentType.GPU, ComponentType.NIC)}


def is_check(condition: Mapping[str, Any]) -> bool:
    """Return whether a node condition is the result of a check by NVSentinel.

    The reason of such a condition is its type followed by `IsNotHealthy` or `IsHealthy`.
    """
    kind, reason = condition.get("type"), condition.get("reason")
    return isinstance(kind, str) and reason in (f"{kind}IsNotHealthy", f"{kind}IsHealthy")


def node_condition_events(node: Mapping[str, Any]) -> Iterator[HealthEvent]:
    """Yield events for the conditions of a node: one for each error, and several for a healthy condition.

    A healthy event ends a fault only if both have the same component. A healthy condition does not identify a device.
    The component of an unhealthy event is therefore a GPU, a NIC or the node without an identifier, so that a later
    healthy event can end its fault. The field `named` has the device that the error identifies. A healthy condition
    gives one event for each of these three components.
    """
    if node.get("kind") != "Node":
        return
    name = node_name(text(members(node.get("metadata")).get("name"), 253))
    for condition in filter(is_check, objects_in(members(node.get("status")).get("conditions"))):
        at = instant(condition.get("lastHeartbeatTime")) or instant(condition.get("lastTransitionTime"))
        message = text(condition.get("message")) or ""
        yield from _check_events(name, str(condition["type"])[:64], str(condition.get("status")), message, at)


def listed_condition_events(node: NodeConditions) -> Iterator[HealthEvent]:
    """Yield the health events of a node that was read from text, such as `kubectl describe` or YAML.

    Text lacks the heartbeat time of a condition, so the time of an event is the last transition time. Otherwise, the
    events are those of `node_condition_events`.
    """
    for one in node.conditions:
        if is_check({"type": one.type, "reason": one.reason}):
            yield from _check_events(node.name, one.type[:64], one.status, one.message or "", one.changed_at)


def without_doubtful(events: Sequence[HealthEvent]) -> list[HealthEvent]:
    """Return the events without the healthy events of each node that also has unhealthy events.

    A condition does not identify its device, so a healthy check could end the fault that another check of the node
    reports.
    """
    unhealthy = {event.node for event in events if not event.healthy}
    return [event for event in events if not event.healthy or event.node not in unhealthy]


def joined(observations: Iterable[Observation]) -> Iterator[Snapshot]:
    """Yield one health snapshot for each node, with the faults and clears of all its conditions.

    In separate snapshots, a healthy check could clear a fault that another check of the node reports.
    """
    covers: defaultdict[str | None, dict[str, dict[Component, None]]] = defaultdict(dict)
    present: defaultdict[str | None, list[Fault]] = defaultdict(list)
    sources = dict[str | None, str]()
    for one in observations:
        sources.setdefault(one.node, one.source)
        if isinstance(one, Fault):
            present[one.node].append(one)
        elif isinstance(one, Snapshot):
            present[one.node] += one.present
            for code, components in one.covers.items():
                covers[one.node].setdefault(code, {}).update(dict.fromkeys(components))
    for node, source in sources.items():
        covered = {code: tuple(components) for code, components in covers[node].items()}
        yield Snapshot(source, covered, tuple(present[node]), node=node)


def _check_events(
    node: str | None, check: str, status: str, message: str, at: datetime | None
) -> Iterator[HealthEvent]:
    if status == "False":
        for component in (NODE_COMPONENT, *_UNNAMED.values()):
            yield HealthEvent(node, check, True, False, message, "", (), component, at)
    else:
        for event in condition_events(message):
            component = _UNNAMED.get(event.component.type, NODE_COMPONENT)
            yield replace(event, check=check, node=node, at=at, component=component, named=event.component)
