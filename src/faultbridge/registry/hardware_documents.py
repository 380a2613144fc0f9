"""Hardware documents: repeat offenders and findings as JSON, identical in the CLI and the API."""

from __future__ import annotations

from faultbridge.domain.findings import Finding
from faultbridge.domain.offenders import Offender
from faultbridge.domain.times import to_text
from faultbridge.registry.documents import Document


def offender_document(offender: Offender) -> Document:
    """Return a repeat offender as JSON: a GPU card that had repeated faults in one slot of a host.

    `favors` is the more likely cause of the faults, `card` or `slot`, or `undetermined`.
    """
    return {
        "device": offender.name,
        "instance_id": offender.place.host,
        "slot": offender.place.pci,
        "faults": offender.faults,
        "card": {"number": offender.card.number, "faulty": offender.card.faulty},
        "other_cards": {"number": offender.slot.number, "faulty": offender.slot.faulty},
        "likelihood_ratio": round(offender.ratio, 3),
        "favors": offender.favors,
    }


def finding_document(finding: Finding) -> Document:
    """Return a gray failure finding as a JSON document.

    `score` is how far the `value` of the node is above the `median` of its group, in robust standard deviations.
    """
    return {
        "finding_id": finding.id,
        "cluster": finding.cluster,
        "node": finding.node,
        "detector": finding.detector,
        "value": finding.value,
        "median": finding.median,
        "score": finding.score / 100,
        "peers": finding.peers,
        "opened_at": to_text(finding.opened_at),
        "ended_at": to_text(finding.ended_at) if finding.ended_at else None,
        "mark": finding.mark,
        "marked_by": finding.marked_by,
        "reason": finding.reason,
    }
