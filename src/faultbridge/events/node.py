"""A node's status."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from faultbridge.events.base import Model
from faultbridge.events.envelope import Event, NodeMetadata
from faultbridge.events.parts import Incarnation, Placement
from faultbridge.events.words import Isolation, NodeStatus


class NodeStatusData(Model):
    """A move of a node from one status to another."""

    from_: NodeStatus | None = Field(alias="from", description="Null for a node that was just registered.")
    to: NodeStatus
    reason: str = Field(description="One line for people: a fault code, a step, an order.")
    incarnation: Incarnation | None = Field(description="Who sits in the node; null when nobody does.")
    isolation: Isolation
    unverified: bool = Field(description="In service by import, without a verification of its own.")
    placement: Placement | None = Field(default=None, description="The place that the node fills.")


class NodeStatusChange(Event):
    """A node moves to another status; only `healthy` and `degraded` are in service."""

    event_type: ClassVar[str] = "Node Status Change"
    metadata: NodeMetadata
    data: NodeStatusData
