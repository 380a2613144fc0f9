"""History: what happened to one device or one node over time, read from the timeline.

Tests: tests/cli/test_device.py, tests/api/test_hardware.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Struct

from faultbridge.model.enums import EntryType, NoteKind
from faultbridge.model.event_data import doc
from faultbridge.model.nodes import NodeKey
from faultbridge.model.offenders import Odds, Offender, Place, Stay, find_offenders
from faultbridge.model.storage import devices, keys
from faultbridge.model.times import from_text
from faultbridge.record.ports import Table
from faultbridge.record.queries import query_all
from faultbridge.record.timeline import Timeline, TimelineQuery

# Device history: where a device was, its faults, and the repairs and diagnostics of its cases.
#
# It covers all nodes. A device (a card) is recognized by its serial number or UUID, also on another node.

Kind = Literal["seen", "fault", "cleared", "case", "repair", "verdict"]
_KINDS: Mapping[str, Literal["fault", "cleared"]] = {
    EntryType.FAULT_DETECTED.value: "fault",
    EntryType.FAULT_CLEARED.value: "cleared",
}
_VERDICTS = frozenset({"passed", "failed", "inconclusive"})
_CASE_ENDS = frozenset({"escalated", "resolved", "expired"})
_REPAIRABLE = ("error", "fatal")


class DeviceEvent(Struct, frozen=True):
    """One event in the history of a device, such as a fault or a repair.

    A `verdict` is the result of diagnostics. A `case` records that a case opened, was escalated or closed.
    """

    at: datetime
    kind: Kind
    cluster: str
    node: str
    instance_id: str | None
    slot: Annotated[str | None, doc("The PCI address in the instance.")]
    text: str
    case_id: str | None = None
    event_id: str | None = None


class DeviceHistory(Struct, frozen=True):
    """Reads the history of devices from sightings and timeline entries.

    It writes nothing.
    """

    table: Table

    def __call__(self, device: str) -> tuple[DeviceEvent, ...]:
        """Return the history of a device, oldest line first; empty for an unknown device."""
        events = [_seen(row) for row in self._sightings(device)]
        cases: dict[str, set[str]] = {}
        for line in Timeline(self.table).entries(TimelineQuery(device=device)):
            event = event_of_entry(line.event)
            if event is not None:
                events.append(event)
                cases.setdefault(event.case_id or "", set()).add(event.instance_id or "")
        for case_id, instances in cases.items():
            events += self._repairs(case_id, instances) if case_id else ()
        return tuple(sorted(events, key=lambda one: one.at))

    def offenders(self, cluster: str, odds: Odds, since: datetime | None = None) -> tuple[Offender, ...]:
        """Return the pairs of card and slot in a cluster with repeated faults of severity error or worse.

        A slot is a PCI address in an instance, because EC2 and HyperPod do not name the host. Faults are repeated if
        the card had at least two in this slot or one in another slot, or if another card had one in this slot. `odds`
        are used to estimate whether the card or the slot is the cause; they do not affect which pairs are returned.
        Faults before `since` do not count.
        """
        stays: list[Stay] = []
        instances: dict[str, set[str]] = {}
        for device in self._faulty(cluster):
            rows = (row for row in self._sightings(device) if row["cluster"] == cluster)
            stays += (Stay(device, _place(row["instance_id"], row["pci"], device)) for row in rows)
            types, severe = (EntryType.FAULT_DETECTED.value,), _REPAIRABLE
            query = TimelineQuery(cluster=cluster, device=device, types=types, since=since)
            for event in (line.event for line in Timeline(self.table).entries(query)):
                instance = str((event["data"].get("incarnation") or {}).get("instance_id"))
                if event["data"]["severity"] in severe:
                    stays.append(Stay(device, _place(instance, event["data"]["component"]["pci"], device), 1))
                    instances.setdefault(event["metadata"]["node"], set()).add(instance)
        for node, held in instances.items():
            stays += self._cards_of(cluster, node, held)
        return find_offenders(stays, odds)

    def _cards_of(self, cluster: str, node: str, instances: set[str]) -> Iterator[Stay]:
        """Yield a `Stay` (a card in a slot) with 0 faults for each card seen in these instances of a node.

        The faults of other cards and slots are compared with these stays.
        """
        query = TimelineQuery(cluster=cluster, node=node, types=(EntryType.NOTE.value,))
        for line in Timeline(self.table).entries(query):
            data = line.event["data"]
            if data["kind"] == NoteKind.DEVICES and data["facts"]["instance_id"] in instances:
                for seen in data["facts"]["devices"]:
                    card = self._name(seen["serial"] or seen["uuid"])
                    yield Stay(card, _place(data["facts"]["instance_id"], seen["pci"], card))

    def _faulty(self, cluster: str) -> list[str]:
        """Return the serial number, or else the UUID, of each device that had a fault in a cluster."""
        partitions = (devices.faulty_partition(cluster, shard) for shard in range(devices.FAULTY_SHARDS))
        rows = (row for partition in partitions for row in query_all(self.table, partition))
        return sorted({self._name(str(row["device"])) for row in rows})

    def _name(self, device: str) -> str:
        link = self.table.get(keys.device_link(device))
        return device if link is None else str(link["serial"])

    def _sightings(self, device: str) -> Iterator[Mapping[str, Any]]:
        """Yield the sightings of a device, including those stored under its serial number."""
        for name in dict.fromkeys((device, self._name(device))):
            for row in query_all(self.table, keys.device(name), up_to=devices.LAST_SIGHTING):
                if device == name or row["uuid"] in {None, device}:
                    yield row

    def _repairs(self, case_id: str, instances: set[str]) -> Iterator[DeviceEvent]:
        """Yield a line for each repair intent of a case, and for each result of diagnostics on `instances`.

        `instances` are the instances in which the device had a fault of this case.
        """
        query = TimelineQuery(case=case_id, types=(EntryType.REPLACEMENT_STEP.value,))
        for event in (line.event for line in Timeline(self.table).entries(query)):
            data = event["data"]
            if data["step"] == "intent":
                yield _event(event, "repair", f"{data['repair_action']} {data['outcome']}", data["old_instance"])
            elif data["step"] == "verify" and data["outcome"] in _VERDICTS and data["new_instance"] in instances:
                yield _event(event, "verdict", f"diagnostics {data['outcome']}", data["new_instance"])


def _place(instance_id: object, pci: object, card: str) -> Place:
    """Return the slot of a card. A card without a known slot gets a placeholder that no other card has."""
    return Place(str(instance_id), str(pci or f"unknown slot of {card}"))


def _seen(row: Mapping[str, Any]) -> DeviceEvent:
    place = (str(row["cluster"]), str(row["node"]), row["instance_id"], row["pci"])
    return DeviceEvent(from_text(str(row["seen_at"])), "seen", *place, "first seen in this instance")


def event_of_entry(event: Mapping[str, Any]) -> DeviceEvent | None:
    """Return the history line of an entry, or None if the history leaves the entry out.

    Lines exist for the start and the end of a fault, and for a case that opened, was escalated or closed.
    """
    data, kind = event["data"], event["metadata"]["event_type"]
    if kind in _KINDS:
        instance = (data["incarnation"] or {}).get("instance_id") if _KINDS[kind] == "fault" else None
        return _event(event, _KINDS[kind], f"{data['severity']} {data['code']}", instance)
    if kind != EntryType.CASE_STATUS.value or not (data["from"] is None or data["to"] in _CASE_ENDS):
        return None
    result = f", {data['resolution']}" if data["resolution"] else ""
    return _event(event, "case", f"{data['to']}: {data['cause']['code']}, {data['repair_action']}{result}")


def _event(event: Mapping[str, Any], kind: Kind, text: str, instance_id: str | None = None) -> DeviceEvent:
    """Return a line of a device's history.

    `instance_id` is the instance that the line is about, or None if the entry does not prove it. For example, the end
    of a fault may be recorded after the instance was replaced.
    """
    metadata, data = event["metadata"], event["data"]
    slot = devices.component_of(data).get("pci")
    return DeviceEvent(
        from_text(metadata["occurred_at"]), kind, metadata["cluster"], metadata["node"], instance_id, slot, text,
        metadata["case_id"], metadata["event_id"],
    )  # fmt: skip


class NodeEvent(Struct, frozen=True):
    """One line of a node's history; `kind` is `instance`, `device`, `fault`, `cleared` or `case`.

    `slot` is the PCI address of the device that the line is about. It is None if the line is about no device, or if the
    address is not known.
    """

    at: datetime
    kind: str
    instance_id: str | None
    slot: str | None
    device: str | None
    text: str
    case_id: str | None
    event_id: str


class NodeHistory(Struct, frozen=True):
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
                yield _event_of_node_history(event, "instance", "this instance backs the node", instance)
            if data.get("kind") == NoteKind.DEVICES:
                for seen in data["facts"]["devices"]:
                    named = seen["serial"] or seen["uuid"]
                    yield _event_of_node_history(
                        event, "device", "first seen in this instance", data["facts"]["instance_id"], seen["pci"], named
                    )
            found = event_of_entry(event)
            if found is not None:
                component = devices.component_of(data)
                named = component.get("serial") or component.get("uuid")
                yield _event_of_node_history(event, found.kind, found.text, found.instance_id, found.slot, named)


def _event_of_node_history(
    event: Mapping[str, Any],
    kind: str,
    text: str,
    instance_id: str | None,
    slot: str | None = None,
    device: str | None = None,
) -> NodeEvent:
    metadata = event["metadata"]
    case_id, event_id = metadata["case_id"], metadata["event_id"]
    return NodeEvent(from_text(metadata["occurred_at"]), kind, instance_id, slot, device, text, case_id, event_id)
