"""Handlers of the Kubernetes watch, which store records of nodes and of events about nodes."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from faultbridge.agent.delivery.outbox import Outbox
from faultbridge.agent.delivery.records import RecordPacker
from faultbridge.agent.host import AgentClock
from faultbridge.collector.node_records import (
    CollectedRecord,
    name_of,
    record_of_event,
    records_of_node,
    unmapped_types,
)
from faultbridge.collector.sent_states import SentStates
from faultbridge.errors import Transient
from faultbridge.log import log_cause

MAX_LOGGED_TYPES = 100


@dataclass(frozen=True, slots=True)
class RecordStore:
    """Stores records on disk. The sender deletes a record after the queue has accepted it."""

    cluster: str
    has_bucket: bool
    outbox: Outbox
    clock: AgentClock

    def store(self, record: CollectedRecord) -> None:
        """Store a record; raises Transient when the disk has no room, so that the object is read again later.

        If a record is too large for a message, the sender uploads it to the bucket for large records. Without a bucket,
        the record is dropped, and this is logged.
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


@dataclass(slots=True)
class NodeHandler:
    """Stores changed records of Kubernetes nodes, and unchanged records again after 30 minutes or more."""

    store: RecordStore
    states: SentStates
    _listed: set[str] = field(default_factory=set)
    _logged: set[str] = field(default_factory=set)

    def handle(self, node: Mapping[str, Any]) -> None:
        """Store each due record of a node, and log condition types that no packaged mapping contains.

        A record is due if it differs from the last stored record with the same node and source, or if that record is 30
        minutes old. Each type is logged once, for at most 100 types.
        """
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

    def remove(self, node: Mapping[str, Any]) -> None:
        """Delete the stored states of a deleted node; no record is stored.

        A deletion is no fault. The inventory of the provider shows whether the instance of the node still exists.
        """
        name = name_of(node)
        if name is not None:
            self.states.forget(name)
            self._listed.discard(name)

    def begin_list(self) -> None:
        """Prepare to receive all nodes: clear the names of the nodes that the previous list contained."""
        self._listed.clear()

    def end_list(self) -> None:
        """Process the end of a list: delete the stored states of nodes that were not in the list."""
        self.states.keep_only(self._listed)


@dataclass(frozen=True, slots=True)
class EventHandler:
    """Stores the records of events about nodes.

    After a restart, the records of listed events are stored again, and ingest removes the duplicates.
    """

    store: RecordStore

    def handle(self, event: Mapping[str, Any]) -> None:
        """Store the record of an event, if the EKS agent or node-problem-detector wrote it about a node."""
        record = record_of_event(event)
        if record is not None:
            self.store.store(record)

    def remove(self, event: Mapping[str, Any]) -> None:
        """Do nothing: Kubernetes deletes old events, and a deletion has no meaning for the node."""

    def begin_list(self) -> None:
        """Do nothing: the handler stores no state of events."""

    def end_list(self) -> None:
        """Do nothing: the handler stores no state of events."""
