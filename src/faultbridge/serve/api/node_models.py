"""The base of all API models, and the models of nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, description="RFC 3339, UTC, milliseconds.")]
Count = Annotated[int, Field(ge=0)]


class ResponseModel(BaseModel):
    """The base of all API models. Clients must ignore unknown fields, which later versions may add."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"additionalProperties": True})


class Component(ResponseModel):
    """A component of a node, with its known identifiers."""

    type: str
    pci: str | None
    uuid: str | None
    index: int | None
    serial: str | None
    link: int | None
    name: str | None


class Condition(ResponseModel):
    """An active condition of a node: a fault that at least one source reports."""

    code: str
    component: Component
    severity: str
    action: str
    message: str
    since: Instant
    last_at: Instant
    count: Count = Field(description="Lower bound of the number of observations.")
    reporters: list[str]
    known_incarnation: bool


class NodeCase(ResponseModel):
    """The live case of a node: its id and its status."""

    case_id: str
    status: str


class Probation(ResponseModel):
    """A repaired fault that is on probation until `until`.

    If the fault returns before that time, it is repaired with the next stronger repair action.
    """

    case_id: str
    code: str
    component: Component
    repair_action: str
    until: Instant


class Ignored(ResponseModel):
    """The exclusion of a node from repair.

    `by` is the ARN of an operator, or `label` for an instance tag or a label of the Kubernetes node.
    """

    by: str
    since: Instant
    until: Instant | None
    reason: str


class Node(ResponseModel):
    """A node with its instance, its active conditions and its live case."""

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
    probations: list[Probation]
    case: NodeCase | None
    last_case: str | None
    due_at: Instant | None
    epoch: int
    entries: Count


class DeclaredDomain(ResponseModel):
    """A failure domain that an operator declared; `nodes` is a Slurm host list."""

    type: str
    name: str
    nodes: str


class NoRepair(ResponseModel):
    """The reason why no repair of a node with faults starts, and what would change that."""

    reason: str
    change: str
    command: str | None = Field(description="The command in `change`; null if no command changes it.")


class ShownNode(Node):
    """A node with the reason why no repair starts (`no_repair`).

    `no_repair` is null if the node has no faults, has a live case, or is not in service.
    """

    no_repair: NoRepair | None
