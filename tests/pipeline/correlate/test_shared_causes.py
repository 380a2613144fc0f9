"""Which failure domain explains the faults of several nodes, and the remote object that they name."""

from __future__ import annotations

import pytest

from faultbridge.decide.correlate.shared_causes import (
    AffectedNode,
    ClusterSnapshot,
    find_shared_causes,
    needs_sizes,
    shared_subject,
)
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.enums import DomainKind
from faultbridge.model.fault_enums import Family
from faultbridge.model.values import replace
from tests.builders import NOON
from tests.pipeline.correlate.life_cycle import LIMITS, affected

RACK, CLUSTER = FailureDomain(DomainKind.RACK, "r-0"), FailureDomain(DomainKind.CLUSTER, "train-a")


@pytest.mark.parametrize(
    ("explains", "inside", "outside", "domain"), [(80, 4, 1, RACK), (66, 6, 3, RACK), (67, 6, 3, CLUSTER)]
)
def test_the_narrower_domain_is_the_cause_if_it_has_the_percentage_of_the_affected_nodes(
    explains: int, inside: int, outside: int, domain: FailureDomain
) -> None:
    nodes = [
        AffectedNode(
            f"n-{number}", Family.NETWORK, NOON, "net.link_down", (RACK, CLUSTER) if number < inside else (CLUSTER,)
        )
        for number in range(inside + outside)
    ]
    known = ClusterSnapshot("stack", "train-a", sizes={RACK: 8, CLUSTER: 16})
    found = find_shared_causes(known, nodes, replace(LIMITS, explains=explains), NOON)
    assert [cause.domain for cause in found] == [domain]


def test_sizes_are_necessary_from_the_number_of_nodes_for_an_incident_in_one_domain_and_family() -> None:
    rack = [affected(0), affected(1)]
    assert needs_sizes([*rack, affected(2)], LIMITS)
    assert not needs_sizes(rack, LIMITS)
    assert not needs_sizes([*rack, affected(2, family=Family.POWER)], LIMITS)


@pytest.mark.parametrize(
    ("percent", "naming", "others", "named"),
    [(80, 4, 1, True), (81, 4, 1, False), (67, 2, 1, False), (50, 0, 2, False)],
)
def test_a_subject_is_shared_if_the_percentage_of_the_affected_nodes_names_it(
    percent: int, naming: int, others: int, named: bool
) -> None:
    nodes = [affected(number, **({"subject": "oss-7"} if number < naming else {})) for number in range(naming + others)]
    assert shared_subject(nodes, percent) == ("oss-7" if named else None)
