"""What several events speak of: components, incarnations, nodes, lists of nodes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from faultbridge.events.base import PCI, Count, Model, Text
from faultbridge.events.words import ComponentType

MAX_LISTED = 50

Facts = Annotated[
    dict[str, JsonValue], Field(description="Details for people and for the curious; no rule should rest on one.")
]


class Component(Model):
    """A part of a node, by every name that is known of it."""

    type: ComponentType
    pci: Annotated[str, Field(pattern=PCI)] | None = Field(
        description="PCI address `dddd:bb:dd` in lower case; the function follows only when it is not 0."
    )
    uuid: str | None = Field(description="The vendor's UUID, such as `GPU-...`.")
    index: Count | None = Field(description="The driver's number; it may change at a reboot.")
    serial: str | None = Field(description="The serial number; two GPUs of one Grace-Blackwell module may share it.")
    link: Count | None = Field(description="The number of the link of a component that has several.")
    name: str | None = Field(description="What the operating system calls it, such as `mlx5_0`.")


class Incarnation(Model):
    """Who sits in the node: the instance, and the numbers of instance and boot, both counted from 1."""

    instance_id: str | None = Field(description="The EC2 instance id, where it is known.")
    instance: Count = Field(description="How many instances have sat in this node, this one included.")
    boot: Count = Field(description="How many boots of this instance are known, this one included.")


class Placement(Model):
    """The place in the cluster that the node fills, whoever sits in it."""

    group: str | None = Field(description="The instance group or Auto Scaling group.")
    instance_type: str | None = Field(description="The EC2 instance type.")
    domain: str | None = Field(description="The failure domain: what shares its fate, such as a rack or a switch.")


class Nodes(Model):
    """Some nodes: how many, and the names of the first fifty."""

    count: Count
    listed: Annotated[tuple[Text, ...], Field(max_length=MAX_LISTED)] = Field(
        description="Names in order; fewer than `count` when there are more than fifty."
    )


class Subject(Model):
    """What an entry is about: a fault code on a component."""

    code: Text = Field(description="The canonical fault code, such as `xid.79`.")
    component: Component
