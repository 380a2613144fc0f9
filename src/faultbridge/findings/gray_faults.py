"""Gray faults: reports the findings of a detector as faults, if the detector is precise enough.

The precision is the share of findings marked right among all marked findings. The policy may set a minimum precision.
If the policy sets none, or the detector has a lower precision or fewer than 10 marked findings, its findings are only
recorded.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.domain.faults import NODE_COMPONENT, Clear, Fault
from faultbridge.domain.findings import Detector, Finding, precision_of
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.fold.changes import Arrival

SOURCE = "peer-comparison"
MIN_MARKED = 10
"""Minimum number of marked findings of a detector; with fewer, its findings start no fault."""


def fault_code(detector: str) -> str:
    """Return the fault code of a detector's findings: `gray.` and the name of the detector."""
    return f"gray.{detector}"


def acting_detectors(detectors: Iterable[Detector], findings: Iterable[Finding], bar: int | None) -> frozenset[str]:
    """Return the names of the detectors whose findings become faults.

    At least 10 findings of such a detector are marked, and at least `bar` percent of the marked findings are right.
    `bar` is the minimum precision of the policy. If it is None, the result is empty.
    """
    if bar is None:
        return frozenset()
    known = tuple(findings)
    recorded = (precision_of(one.name, known) for one in detectors)
    return frozenset(
        one.detector
        for one in recorded
        if one.right + one.wrong >= MIN_MARKED and one.right * 100 >= bar * (one.right + one.wrong)
    )


def began(finding: Finding) -> Arrival:
    """Return the observation (`Arrival`) that starts the fault of a finding."""
    fault = Fault(
        SOURCE,
        fault_code(finding.detector),
        NODE_COMPONENT,
        f"{finding.value} an hour, the median of {finding.peers} peers is {finding.median}.",
        observed_at=finding.opened_at,
        attributes={"finding": finding.id},
    )
    return Arrival(fault, finding.opened_at, finding.id)


def ended(finding: Finding, state: NodeState, now: datetime) -> tuple[Arrival, ...]:
    """Return the observation that ends the fault of a finding; empty if the node has no such active fault."""
    code = fault_code(finding.detector)
    if not any(one.code == code for one in state.active()):
        return ()
    clear = Clear(SOURCE, code, NODE_COMPONENT, "no longer above its peers", observed_at=now)
    return (Arrival(clear, now, f"{finding.id}-ended"),)
