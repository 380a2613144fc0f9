"""Documents about devices and findings: the history of a device, repeat offenders, and signs of gray failures."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from faultbridge.model import findings, offenders
from faultbridge.model.event_data import Count, doc
from faultbridge.model.findings import Mark
from faultbridge.repair.registry.documents import Document, shared


class Trials(Document, frozen=True, kw_only=True):
    """The evidence about a card or about a slot.

    `number` is how many other pairs of card and slot contain it, and `faulty` is how many of these pairs had a fault.
    """

    number: Count
    faulty: Count


class Offender(Document, frozen=True, kw_only=True):
    """A device (card), and a slot in which the card had a fault.

    The card or the slot had at least two faults.
    """

    device: str
    instance_id: str
    slot: str
    faults: Count
    card: Annotated[Trials, doc("Other slots of this card.")]
    other_cards: Annotated[Trials, doc("Other cards of this slot.")]
    likelihood_ratio: Annotated[float, doc("Of a faulty card to a faulty slot.")]
    favors: Literal["card", "slot", "undetermined"]


def offender_document(offender: offenders.Offender) -> Offender:
    """Return a repeat offender as a document; `favors` is the likelier cause: card, slot or undetermined."""
    return shared(
        Offender,
        offender,
        device=offender.name,
        instance_id=offender.place.host,
        slot=offender.place.pci,
        card=shared(Trials, offender.card),
        other_cards=shared(Trials, offender.slot),
        likelihood_ratio=round(offender.ratio, 3),
    )


class Finding(Document, frozen=True, kw_only=True):
    """A node whose error counters rise far faster than those of its peers, or a device that is slow in a job.

    `value` and `median` are per hour, or in the unit of `evidence`.
    """

    finding_id: str
    cluster: str
    node: str
    detector: str
    value: int
    median: int
    score: Annotated[float, doc("Robust standard deviations from the median.")]
    peers: Count
    opened_at: datetime
    ended_at: datetime | None
    mark: Mark | None
    marked_by: str | None
    reason: str
    rank: Annotated[int | None, doc("The rank of the job for which the others wait, if known.")]
    evidence: Annotated[str, doc("What differs, with the device.")]


def finding_document(finding: findings.Finding) -> Finding:
    """Return a finding as a document; `score` is in robust standard deviations from the median."""
    return shared(Finding, finding, finding_id=finding.id, score=finding.score / 100)
