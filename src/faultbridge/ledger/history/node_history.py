"""Node history: the instances and devices of a node over time, with the faults and cases of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.entries import EntryType
from faultbridge.domain.nodes import NodeKey
from faultbridge.ledger.history.device_history import event_of_entry
from faultbridge.ledger.timeline import Timeline, TimelineQuery
from faultbridge.ports import Table
from faultbridge.storage import devices


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """One line of a node's history; `kind` is `instance`, `device`, `fault`, `cleared` or `case`.

    `slot` is the PCI address of the device that the line is about. It is None if the line is about no device, or if the
    address is not known.
    """

    at: str
    kind: str
    instance_id: str | None
    slot: str | None
    device: str | None
    text: str
    case_id: str | None
    event_id: str


@dataclass(frozen=True, slots=True)
class NodeHistory:
    """Reads the history of nodes from timeline entries.

    It writes nothing.
    """

    table: Table

    def __call__(self, node: NodeKey) -> Iterator[NodeEvent]:
        """Yield the lines of a node's history, in the order of recording.

        An unregistered node raises Rejected `unknown_node`.
        """
        instance: str | None = None
        for event in (line.event for line in Timeline(self.table).entries(TimelineQuery(node.cluster, node.node))):
            data, kind = event["data"], event["metadata"]["event_type"]
            current = (data.get("incarnation") or {}).get("instance_id")
            if kind == EntryType.NODE_STATUS.value and current not in {None, instance}:
                instance = current
                yield _event(event, "instance", "this instance backs the node", instance)
            if data.get("kind") == devices.DEVICES_NOTE:
                for seen in data["facts"]["devices"]:
                    named = seen["serial"] or seen["uuid"]
                    yield _event(
                        event, "device", "first seen in this instance", data["facts"]["instance_id"], seen["pci"], named
                    )
            found = event_of_entry(event)
            if found is not None:
                component = devices.component_of(data)
                named = component.get("serial") or component.get("uuid")
                yield _event(event, found.kind, found.text, found.instance_id, found.slot, named)


def _event(
    event: Mapping[str, Any],
    kind: str,
    text: str,
    instance_id: str | None,
    slot: str | None = None,
    device: str | None = None,
) -> NodeEvent:
    metadata = event["metadata"]
    at, case_id, event_id = metadata["occurred_at"], metadata["case_id"], metadata["event_id"]
    return NodeEvent(at, kind, instance_id, slot, device, text, case_id, event_id)
