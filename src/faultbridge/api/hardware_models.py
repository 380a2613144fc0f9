"""The models of devices and findings, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultbridge.api.node_models import Count, Instant, ResponseModel
from faultbridge.domain.findings import Mark


class DeviceEvent(ResponseModel):
    """One event in the history of a device, such as a fault or a repair."""

    at: Instant
    kind: Literal["seen", "fault", "cleared", "case", "repair", "verdict"]
    cluster: str
    node: str
    instance_id: str | None
    slot: str | None = Field(description="The PCI address in the instance.")
    text: str
    case_id: str | None
    event_id: str | None


class DeviceEvents(ResponseModel):
    """The history of a device in one cluster, oldest first."""

    items: list[DeviceEvent]


class Trials(ResponseModel):
    """The evidence about a card or about a slot.

    `number` is how many other pairs of card and slot contain it, and `faulty` is how many of these pairs had a fault.
    """

    number: Count
    faulty: Count


class Offender(ResponseModel):
    """A device (card), and a slot in which the card had a fault.

    The card or the slot had at least two faults.
    """

    device: str
    instance_id: str
    slot: str
    faults: Count
    card: Trials = Field(description="Other slots of this card.")
    other_cards: Trials = Field(description="Other cards of this slot.")
    likelihood_ratio: float = Field(description="Of a faulty card to a faulty slot.")
    favors: Literal["card", "slot", "undetermined"]


class Offenders(ResponseModel):
    """Pairs of a device (card) and a slot with repeated severe faults.

    The pair with the most faults is first.
    """

    items: list[Offender]


class Finding(ResponseModel):
    """A node whose error counters rise far faster than those of its peers.

    `value` and `median` are per hour.
    """

    finding_id: str
    cluster: str
    node: str
    detector: str
    value: int
    median: int
    score: float = Field(description="Robust standard deviations above the median.")
    peers: Count
    opened_at: Instant
    ended_at: Instant | None
    mark: Mark | None
    marked_by: str | None
    reason: str


class Findings(ResponseModel):
    """A list of findings, oldest first."""

    items: list[Finding]


HARDWARE_MODELS = (DeviceEvents, Offenders, Finding, Findings)
