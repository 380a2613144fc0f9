"""The shapes of what answers say of nodes, and what all shapes are made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, description="RFC 3339, UTC, milliseconds.")]
Count = Annotated[int, Field(ge=0)]


class Shape(BaseModel):
    """An answer; fields may be added to it, so readers ignore what they do not know."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"additionalProperties": True})


class Component(Shape):
    """A part of a node."""

    type: str
    pci: str | None
    uuid: str | None
    index: int | None
    serial: str | None
    link: int | None
    name: str | None


class Condition(Shape):
    """Something that is wrong with a node now."""

    code: str
    component: Component
    severity: str
    action: str
    message: str
    since: Instant
    last_at: Instant
    count: Count = Field(description="How often it was seen, at least.")
    reporters: list[str]
    known_incarnation: bool


class CaseOf(Shape):
    """Which case a node has."""

    case_id: str
    status: str


class Ignored(Shape):
    """That a node is left alone: who said so (a person's ARN, or `label`), since and until when, and why."""

    by: str
    since: Instant
    until: Instant | None
    reason: str


class Node(Shape):
    """A node: who sits there, what is wrong, the case it has."""

    cluster: str
    node: str
    status: str
    severity: str | None
    unverified: bool
    isolation: str
    ignored: Ignored | None
    instance_id: str | None
    boot_id: str | None
    instance: Count
    boot: Count
    since: Instant | None
    former_instances: list[str]
    group: str | None
    instance_type: str | None
    domain: str | None
    domains: dict[str, str]
    aliases: list[str]
    conditions: list[Condition]
    devices: list[Component]
    case: CaseOf | None
    last_case: str | None
    due_at: Instant | None
    epoch: int
    entries: Count
