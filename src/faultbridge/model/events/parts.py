"""Parts that several events contain: components, instances, placements, node lists, evidence."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, JsonValue

from faultbridge.model.enums import MAX_LISTED, ProviderFailure
from faultbridge.model.events.enums import PCI, Count, Model, Open, Sha256, Text
from faultbridge.model.fault_enums import ComponentType

Facts = Annotated[dict[str, JsonValue], Field(description="Details for readers. Do not match rules on them.")]
Failure = Annotated[Open[ProviderFailure] | None, Field(description="Failure of the step; `reason` starts with it.")]
Detail = Annotated[str | None, Field(description="The end of `reason` that a step, an operator or an incident gave.")]
Evidence = Annotated[
    str | None,
    Field(description="The raw text, at most 4 KB. It is not part of the hashed body; `evidence_sha256` is."),
]
EvidenceHash = Annotated[Sha256 | None, Field(description="SHA-256 of the complete evidence, before it is shortened.")]
EvidenceUri = Annotated[Text | None, Field(description="Location of the complete raw data, if it is stored.")]


class Component(Model):
    """A part of a node, with all its known identifiers."""

    type: Open[ComponentType]
    pci: Annotated[str, Field(pattern=PCI)] | None = Field(
        description="PCI address `dddd:bb:dd` in lower case; the function is appended only if it is not 0."
    )
    uuid: str | None = Field(description="The vendor's UUID, such as `GPU-...`.")
    index: Count | None = Field(description="The driver's index. It may change at a reboot.")
    serial: str | None = Field(description="Serial number. The two GPUs of a Grace Blackwell module may share one.")
    link: Count | None = Field(description="Link number, for a component with several links.")
    name: str | None = Field(description="Name in the operating system, such as `mlx5_0`.")


class Incarnation(Model):
    """The instance and boot that back a node."""

    instance_id: str | None = Field(description="EC2 instance id, if known.")
    instance: Count = Field(description="Number of this instance among the instances of the node, from 1.")
    boot: Count = Field(description="Number of this boot among the known boots of the instance, from 1.")


class Placement(Model):
    """The group, instance type and failure domain of a node.

    A replacement of the node's instance can change the instance type and the failure domain.
    """

    group: str | None = Field(description="Instance group or Auto Scaling group.")
    instance_type: str | None = Field(description="EC2 instance type.")
    domain: str | None = Field(description="Failure domain, such as a rack or a switch.")


class NodeList(Model):
    """A list of nodes: the number of nodes, and the first fifty names in alphabetical order."""

    count: Count
    listed: Annotated[tuple[Text, ...], Field(max_length=MAX_LISTED)] = Field(
        description="Sorted names. Shorter than `count` if there are more than fifty nodes."
    )


class FaultReference(Model):
    """A fault, named by its fault code and its component."""

    code: Text = Field(description="Canonical fault code, such as `xid.79`.")
    component: Component
