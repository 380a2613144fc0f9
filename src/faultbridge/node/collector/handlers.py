"""Handlers of the Kubernetes watch, which store records of nodes and of events about nodes."""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.frames.values import members, objects_in, text
from faultbridge.decode.kubernetes.node_conditions import DETECTOR_SOURCE, EKS_SOURCE, NODE_SOURCE, recognize
from faultbridge.decode.nvsentinel import SOURCE as NVSENTINEL_SOURCE
from faultbridge.decode.nvsentinel import is_check
from faultbridge.model import names
from faultbridge.model.errors import Transient
from faultbridge.model.log import log_cause
from faultbridge.node.agent.delivery.outbox import Outbox
from faultbridge.node.agent.delivery.records import RecordPacker
from faultbridge.node.agent.host import AgentClock

# Agents and users write the fields of Kubernetes objects. Every field is therefore untrusted.

_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_REPORTED = "lastHeartbeatTime"
_EVENT = (
    "reason", "message", "type", "source", "reportingComponent", "series", "eventTime", "firstTimestamp",
    "lastTimestamp", "count",
)  # fmt: skip
_MAX_NAME = 253


@dataclass(frozen=True, slots=True)
class CollectedRecord:
    """One raw record. `node` is None if the record concerns no single node.

    `record_id` identifies the observation, so that ingest removes a duplicate. `record_id` is None if each sent record
    is a new observation.
    """

    source: str
    node: str | None
    body: bytes
    instance_id: str | None = None
    record_id: str | None = None


def name_of(node: Mapping[str, object]) -> str | None:
    """Return the name of a Kubernetes node, or None if the name is not valid."""
    name = text(members(node.get("metadata")).get("name"), _MAX_NAME)
    return name if name and names.NODE_NAME.fullmatch(name) else None


def records_of_node(node: Mapping[str, object]) -> Iterator[CollectedRecord]:
    """Yield the conditions of a Kubernetes node, as one record for each agent that writes conditions.

    A node without a valid name has no records.

    - The source of a record identifies the agent. The agent's next record can therefore clear the faults of its earlier
      records and events.
    - The record of the kubelet also has the health labels of the node.
    - Records contain no heartbeat times, so that an unchanged node gives an equal record. The record of NVSentinel is
      an exception: NVSentinel changes a heartbeat time only with a new health event.
    """
    name = name_of(node)
    if name is None:
        return
    by_source: defaultdict[str, list[Mapping[str, object]]] = defaultdict(list, {NODE_SOURCE: []})
    for condition in objects_in(members(node.get("status")).get("conditions")):
        by_source[_source_of(condition)].append(condition)
    labels = members(members(node.get("metadata")).get("labels"))
    health = {label: labels[label] for label in _health_labels() if label in labels}
    for source, conditions in by_source.items():
        fields = (*_CONDITION, _REPORTED) if source == NVSENTINEL_SOURCE else _CONDITION
        kept = [{field: one[field] for field in fields if field in one} for one in conditions]
        metadata = {"name": name, "labels": health if source == NODE_SOURCE else {}}
        body = _json({"kind": "Node", "metadata": metadata, "status": {"conditions": kept}})
        yield CollectedRecord(source, name, body, _instance_of(node))


def record_of_event(event: Mapping[str, object]) -> CollectedRecord | None:
    """Return the record of an event about a node, if the EKS agent or node-problem-detector wrote it.

    The record id is derived from the event and its version, so that ingest counts each version once even if it is
    listed again. An event without a name and a uid has no record id.
    """
    about, metadata = members(event.get("involvedObject")), members(event.get("metadata"))
    node = text(about.get("name"), _MAX_NAME)
    is_about_node = about.get("kind") == "Node" and text(event.get("reason")) is not None
    if not is_about_node or node is None or names.NODE_NAME.fullmatch(node) is None:
        return None
    document = {"kind": "Event", "involvedObject": {"kind": "Node", "name": node}}
    body = _json({**document, **{field: event[field] for field in _EVENT if field in event}})
    for source in (EKS_SOURCE, DETECTOR_SOURCE):
        if recognize(source, body):
            return CollectedRecord(source, node, body, record_id=_event_id(metadata, body))
    return None


def unmapped_types(node: Mapping[str, object]) -> Iterator[str]:
    """Yield the types of a node's true conditions that no packaged mapping contains.

    Only a customer's own mapping can translate these types to fault codes. Types that end in `Ready` or `Healthy` are
    left out, because `True` is their healthy state. The checks of NVSentinel are left out too.
    """
    known = members(mapping("conditions", {})["types"])
    for condition in objects_in(members(node.get("status")).get("conditions")):
        kind = text(condition.get("type"), 128)
        wrong = condition.get("status") == "True" and not is_check(condition)
        if wrong and kind and kind not in known and not kind.endswith(("Ready", "Healthy")):
            yield kind


def _event_id(metadata: Mapping[str, object], body: bytes) -> str | None:
    """Return the id of one version of an event, or a hash of what it has; None without a name and a uid.

    Two events without a name and a uid, but with equal content, may be two faults.
    """
    uid, version = text(metadata.get("uid")), text(metadata.get("resourceVersion"))
    record_id = f"k8s-{uid}-{version}"
    if uid and version and names.RECORD_ID.fullmatch(record_id):
        return record_id
    if not uid and text(metadata.get("name")) is None:
        return None
    identity = {field: metadata.get(field) for field in ("namespace", "name", "uid", "resourceVersion")}
    return f"k8s-{hashlib.sha256(_json(identity) + body).hexdigest()}"


def _source_of(condition: Mapping[str, object]) -> str:
    if is_check(condition):
        return NVSENTINEL_SOURCE
    row = members(mapping("conditions", {})["types"]).get(text(condition.get("type"), 128) or "")
    return str(row["sources"][0]) if row else NODE_SOURCE


def _instance_of(node: Mapping[str, object]) -> str | None:
    provider_id = text(members(node.get("spec")).get("providerID"), 256) or ""
    candidate = provider_id.rpartition("/")[2]
    return candidate if names.INSTANCE_ID.fullmatch(candidate) else None


def _json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


@cache
def _health_labels() -> tuple[str, ...]:
    return tuple(members(mapping("conditions", {})["labels"]))


REPEAT_SECONDS = 1800.0
"""An unchanged record is sent again after this time, so that a rejected or lost record is replaced."""


@dataclass(slots=True)
class SentStates:
    """The digest and the time of the last stored record for each node and record source."""

    monotonic: Callable[[], float]
    _sent: dict[tuple[str, str], tuple[bytes, float]] = field(default_factory=dict)

    def is_due(self, node: str, source: str, body: bytes) -> bool:
        """Return whether a record is new or changed, or was last stored at least 30 minutes ago."""
        digest, at = self._sent.get((node, source), (b"", 0.0))
        return digest != _digest(body) or self.monotonic() - at >= REPEAT_SECONDS

    def sent(self, node: str, source: str, body: bytes) -> None:
        """Store the digest and the time of a record that was stored for sending."""
        self._sent[node, source] = (_digest(body), self.monotonic())

    def keep_only(self, nodes: set[str]) -> None:
        """Delete the states of all nodes except `nodes`, because all other nodes no longer exist."""
        self._sent = {key: state for key, state in self._sent.items() if key[0] in nodes}

    def forget(self, node: str) -> None:
        """Delete the states of one node, so that the next record of the node is due."""
        self._sent = {key: state for key, state in self._sent.items() if key[0] != node}


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


MAX_LOGGED_TYPES = 100


@dataclass(frozen=True, slots=True)
class RecordStore:
    """Stores records on disk. The sender deletes a record after the queue has accepted it."""

    cluster: str
    has_bucket: bool
    outbox: Outbox
    clock: AgentClock

    def store(self, record: CollectedRecord) -> None:
        """Store a record; raises Transient without room on disk, so that the object is read again.

        A record that is too large for a message and has no bucket is dropped, and this is logged.
        """
        new_id = record.record_id or str(uuid.uuid4())
        packer = RecordPacker(
            self.cluster, record.node, record.instance_id, None, has_bucket=self.has_bucket, new_id=lambda: new_id
        )
        packed = packer.pack(record.source, record.body, self.clock.now())
        if packed is None:
            reason = f"{len(record.body)} bytes do not fit into a message, and no bucket is set"
            log_cause("record_dropped", reason=reason, level=logging.WARNING, node=record.node, source=record.source)
        elif not self.outbox.store(packed):
            raise Transient(f"no room on disk: {self.outbox.waiting} records wait for the queue")


class Handler(ABC):
    """Receives the objects of a follower; raises Transient to receive the same object again later."""

    @abstractmethod
    def handle(self, found: Mapping[str, object], /) -> None:
        """Receive an object that was listed or has changed, and store records about it for sending."""

    def remove(self, found: Mapping[str, object], /) -> None:  # noqa: B027 - not each handler stores a state
        """Receive an object that was deleted; by default a deletion has no meaning."""

    def begin_list(self) -> None:  # noqa: B027 - as above
        """Prepare to receive all objects again, each by `handle`."""

    def end_list(self) -> None:  # noqa: B027 - as above
        """Process the end of a list: objects for which `handle` was not called since `begin_list` are gone."""


@dataclass(slots=True)
class NodeHandler(Handler):
    """Stores changed records of Kubernetes nodes, and unchanged records again after 30 minutes or more."""

    store: RecordStore
    states: SentStates
    _listed: set[str] = field(default_factory=set)
    _logged: set[str] = field(default_factory=set)

    def handle(self, node: Mapping[str, object], /) -> None:
        """Store each new, changed or 30 minutes old record; log each unmapped type once, 100 at most."""
        name = name_of(node)
        if name is None:
            return
        for record in records_of_node(node):
            self._listed.add(name)
            if self.states.is_due(name, record.source, record.body):
                self.store.store(record)
                self.states.sent(name, record.source, record.body)
        for kind in unmapped_types(node):
            if kind not in self._logged and len(self._logged) < MAX_LOGGED_TYPES:
                self._logged.add(kind)
                reason = "true, but no packaged mapping contains its type; `faultbridge mapping` adds one"
                log_cause("condition_not_mapped", reason=reason, condition=kind, node=name_of(node))

    def remove(self, node: Mapping[str, object], /) -> None:
        """Delete the states of a deleted node: a deletion is no fault, and the inventory shows the instance."""
        name = name_of(node)
        if name is not None:
            self.states.forget(name)
            self._listed.discard(name)

    def begin_list(self) -> None:
        """Clear the names of the nodes that the previous list contained."""
        self._listed.clear()

    def end_list(self) -> None:
        """Delete the stored states of nodes that were not in the list."""
        self.states.keep_only(self._listed)


@dataclass(frozen=True, slots=True)
class EventHandler(Handler):
    """Stores the records of events about nodes; ingest removes the duplicates after a restart."""

    store: RecordStore

    def handle(self, event: Mapping[str, object], /) -> None:
        """Store the record of an event, if the EKS agent or node-problem-detector wrote it about a node."""
        record = record_of_event(event)
        if record is not None:
            self.store.store(record)
