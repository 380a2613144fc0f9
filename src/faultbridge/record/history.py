"""History: what happened to one device or one node over time, read from the timeline.

Tests: tests/cli/test_device.py, tests/api/test_hardware.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Literal

from msgspec import Struct

from faultbridge.model.entries import component_of
from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import (
    CaseStatusData,
    EventData,
    FaultData,
    NodeStatusData,
    ReplacementStepData,
    doc,
)
from faultbridge.model.nodes import NodeKey
from faultbridge.model.offenders import Odds, Offender, Place, Stay, find_offenders
from faultbridge.model.recorded import RecordedEvent
from faultbridge.model.storage import devices, keys
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import from_text
from faultbridge.record.ports.table import Table
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
        for entry in self._entries(TimelineQuery(device=device)):
            event = event_of_entry(entry)
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
            types = (EntryType.FAULT_DETECTED.value,)
            for entry in self._entries(TimelineQuery(cluster=cluster, device=device, types=types, since=since)):
                data = entry.data
                if isinstance(data, FaultData) and data.severity in _REPAIRABLE:
                    instance = str(data.incarnation.instance_id if data.incarnation else None)
                    stays.append(Stay(device, _place(instance, data.component.pci, device), 1))
                    instances.setdefault(str(entry.metadata.node), set()).add(instance)
        for node, held in instances.items():
            stays += self._cards_of(cluster, node, held)
        return find_offenders(stays, odds)

    def _cards_of(self, cluster: str, node: str, instances: set[str]) -> Iterator[Stay]:
        """Yield a `Stay` (a card in a slot) with 0 faults for each card seen in these instances of a node.

        The faults of other cards and slots are compared with these stays.
        """
        query = TimelineQuery(cluster=cluster, node=node, types=(EntryType.NOTE.value,))
        for entry in self._entries(query):
            for seen in devices.listed_devices(entry.data):
                if seen.instance_id in instances:
                    card = self._name(str(seen.serial or seen.uuid))
                    yield Stay(card, _place(seen.instance_id, seen.pci, card))

    def _entries(self, query: TimelineQuery) -> Iterator[RecordedEvent[EventData | None]]:
        return (line.event for line in Timeline(self.table).entries(query))

    def _faulty(self, cluster: str) -> list[str]:
        """Return the serial number, or else the UUID, of each device that had a fault in a cluster."""
        partitions = (devices.faulty_partition(cluster, shard) for shard in range(devices.FAULTY_SHARDS))
        rows = (row for partition in partitions for row in query_all(self.table, partition))
        return sorted({self._name(str(row["device"])) for row in rows})

    def _name(self, device: str) -> str:
        link = self.table.get(keys.device_link(device))
        return device if link is None else str(link["serial"])

    def _sightings(self, device: str) -> Iterator[Item]:
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
        for entry in self._entries(query):
            data = entry.data
            if not isinstance(data, ReplacementStepData):
                continue
            if data.step == "intent":
                yield _event(entry, "repair", f"{data.repair_action} {data.outcome}", data.old_instance)
            elif data.step == "verify" and data.outcome in _VERDICTS and data.new_instance in instances:
                yield _event(entry, "verdict", f"diagnostics {data.outcome}", data.new_instance)


def _place(instance_id: object, pci: object, card: str) -> Place:
    """Return the slot of a card. A card without a known slot gets a placeholder that no other card has."""
    return Place(str(instance_id), str(pci or f"unknown slot of {card}"))


def _seen(row: Item) -> DeviceEvent:
    instance, slot = (None if row[name] is None else str(row[name]) for name in ("instance_id", "pci"))
    cluster, node, text = str(row["cluster"]), str(row["node"]), "first seen in this instance"
    return DeviceEvent(from_text(str(row["seen_at"])), "seen", cluster, node, instance, slot, text)


def event_of_entry(entry: RecordedEvent[EventData | None]) -> DeviceEvent | None:
    """Return the history line of an entry, or None if the history leaves the entry out.

    Lines exist for the start and the end of a fault, and for a case that opened, was escalated or closed.
    """
    data, kind = entry.data, _KINDS.get(entry.metadata.event_type)
    if isinstance(data, FaultData) and kind:
        instance = data.incarnation.instance_id if data.incarnation and kind == "fault" else None
        return _event(entry, kind, f"{data.severity} {data.code}", instance)
    if not isinstance(data, CaseStatusData) or not (data.from_ is None or data.to in _CASE_ENDS):
        return None
    result = f", {data.resolution}" if data.resolution else ""
    return _event(entry, "case", f"{data.to}: {data.cause.code}, {data.repair_action}{result}")


def _event(
    entry: RecordedEvent[EventData | None], kind: Kind, text: str, instance_id: str | None = None
) -> DeviceEvent:
    """Return a line of a device's history.

    `instance_id` is the instance that the line is about, or None if the entry does not prove it. For example, the end
    of a fault may be recorded after the instance was replaced.
    """
    of, component = entry.metadata, component_of(entry.data)
    slot = component.pci if component else None
    return DeviceEvent(of.occurred_at, kind, of.cluster, str(of.node), instance_id, slot, text, of.case_id, of.event_id)


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
        for line in Timeline(self.table).entries(TimelineQuery(node.cluster, node.node)):
            entry = line.event
            data, of = entry.data, entry.metadata
            place = of.case_id, of.event_id
            current = getattr(data, "incarnation", None)
            if isinstance(data, NodeStatusData) and current and current.instance_id not in {None, instance}:
                instance = current.instance_id
                text = "this instance backs the node"
                yield NodeEvent(of.occurred_at, "instance", instance, None, None, text, *place)
            for seen in devices.listed_devices(data):
                named, text = seen.serial or seen.uuid, "first seen in this instance"
                yield NodeEvent(of.occurred_at, "device", seen.instance_id, seen.pci, named, text, *place)
            found, component = event_of_entry(entry), component_of(data)
            if found is not None:
                named = (component.serial or component.uuid) if component else None
                yield NodeEvent(found.at, found.kind, found.instance_id, found.slot, named, found.text, *place)
