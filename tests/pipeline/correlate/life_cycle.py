"""Builders of life cycle that several test modules use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from faultbridge.decide.correlate.life_cycle import IncidentChange, correlate
from faultbridge.decide.correlate.shared_causes import AffectedNode, ClusterSnapshot, OnsetHistory
from faultbridge.model.cluster.config import FailureDomain, failure_domains
from faultbridge.model.cluster.incidents import CorrelationLimits, Incident
from faultbridge.model.enums import IncidentChangeKind
from faultbridge.model.fault_enums import Family
from tests.builders import NOON

LIMITS = CorrelationLimits()

RACKS, PER_RACK = 10, 8

KINDS = IncidentChangeKind

NO_HISTORY = OnsetHistory()


def domains_of(number: int) -> tuple[FailureDomain, ...]:
    """Return the failure domains of a node: its rack, one of two zones, and the cluster."""
    rack = number // PER_RACK
    return failure_domains("train-a", f"n-{number:02}", None, {"rack": f"r-{rack}", "zone": f"z-{rack // 5}"})


SIZES = Counter(domain for number in range(RACKS * PER_RACK) for domain in domains_of(number))


def affected(number: int, since: datetime = NOON, family: Family = Family.NETWORK, **others: str) -> AffectedNode:
    return AffectedNode(f"n-{number:02}", family, since, "net.link_down", domains_of(number), **others)


def snapshot(nodes: Iterable[AffectedNode], history: OnsetHistory = NO_HISTORY) -> ClusterSnapshot:
    return ClusterSnapshot("stack", "train-a", tuple(nodes), SIZES, history)


def run(
    nodes: Iterable[AffectedNode], incidents: Iterable[Incident] = (), now: datetime = NOON, **others
) -> list[IncidentChange]:
    return list(correlate(snapshot(nodes, **others), incidents, (), LIMITS, now))


def opened(nodes: Iterable[AffectedNode]) -> Incident:
    (change,) = run(nodes)
    assert change.kind is KINDS.OPENED
    return change.after
