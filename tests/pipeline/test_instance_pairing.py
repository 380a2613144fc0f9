"""Instance pairing: no instance is taken from a repair, and none is assigned twice."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.instance_pairing import FOLLOW_STEP, VacantNode, may_change_instance, pair, waits_for_provider
from faultbridge.model.cases import Attempt, Case, Phase
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.nodes import Instance
from faultbridge.model.values import replace
from tests.builders import ESCALATED, NOON, node


def unassigned(number: int, **others: str) -> list[Instance]:
    return [Instance(f"i-{one}", launched_at=NOON + timedelta(minutes=one)) for one in range(number)]


def test_the_oldest_instance_is_assigned_and_the_youngest_is_left_for_a_repair() -> None:
    pairing = pair([VacantNode("free"), VacantNode("under-repair", under_repair=True)], unassigned(2))
    assert pairing.assigned == (("free", "i-0"),)
    assert pairing.waiting == ("i-1",)


def test_an_instance_without_a_vacant_node_becomes_a_new_node() -> None:
    assert pair([VacantNode("free")], unassigned(3)).added == ("i-1", "i-2")


def test_an_instance_of_unknown_age_counts_as_the_oldest() -> None:
    instances = [
        Instance("i-1", launched_at=NOON + timedelta(minutes=1)),
        Instance("i-2", launched_at=NOON),
        Instance("i-3"),
    ]
    pairing = pair([VacantNode("a"), VacantNode("b")], instances)
    assert (pairing.assigned, pairing.added) == ((("a", "i-3"), ("b", "i-2")), ("i-1",))


def test_an_instance_is_assigned_to_a_node_of_its_own_zone_first() -> None:
    free = [VacantNode("a", zone="z-1"), VacantNode("b", zone="z-2")]
    instances = [
        Instance("i-1", launched_at=NOON, domains={"zone": "z-2"}),
        Instance("i-2", launched_at=NOON + timedelta(minutes=1), domains={"zone": "z-1"}),
    ]
    assert dict(pair(free, instances).assigned) == {"a": "i-2", "b": "i-1"}


def test_a_node_with_a_provider_slot_gets_only_the_instance_of_that_slot() -> None:
    nodes = [VacantNode("a", slot="s-1"), VacantNode("b", slot="s-2", under_repair=True)]
    instances = [
        Instance("i-1", slot="s-1"),
        Instance("i-2", slot="s-2"),
        Instance("i-3", slot="s-3"),
    ]
    pairing = pair(nodes, instances)
    assert (pairing.assigned, pairing.waiting, pairing.added) == ((("a", "i-1"),), ("i-2",), ("i-3",))


vacancies = st.lists(
    st.builds(VacantNode, st.text("abcdef", min_size=1), under_repair=st.booleans(), confirmed_gone=st.booleans()),
    max_size=8,
    unique_by=lambda one: one.node,
)


@given(vacancies, st.integers(0, 12))
def test_every_instance_has_one_result_and_one_is_left_for_each_node_that_is_not_open(
    nodes: list[VacantNode], number: int
):
    pairing = pair(nodes, unassigned(number))
    assigned = [instance for _, instance in pairing.assigned]
    assert sorted([*assigned, *pairing.added, *pairing.waiting]) == sorted(f"i-{one}" for one in range(number))
    open_nodes = {node.node for node in nodes if node.open}
    assert {node for node, _ in pairing.assigned} <= open_nodes
    assert len(pairing.assigned) == len({node for node, _ in pairing.assigned})
    assert len(pairing.waiting) == min(len(nodes) - len(open_nodes), number)
    if pairing.added:
        assert {node for node, _ in pairing.assigned} == open_nodes


def in_progress(step: str, **steps: str) -> Case:
    """Return a case whose attempt is at this step, after the finished steps."""
    attempt = Attempt(1, Phase.AWAITING, step=step, steps=steps)
    return replace(ESCALATED, status=CaseStatus.IN_PROGRESS, attempt=attempt)


@pytest.mark.parametrize(
    ("case", "waits"),
    [
        (None, False),
        (ESCALATED, False),
        (in_progress("drain"), False),
        (in_progress(FOLLOW_STEP, drain="drained"), True),
        (in_progress(FOLLOW_STEP, **{FOLLOW_STEP: "repaired"}), False),
    ],
    ids=["no case", "no attempt", "another step", "the provider repairs", "the provider has repaired"],
)
def test_only_an_attempt_that_follows_the_provider_permits_another_instance(case: Case | None, waits: bool) -> None:
    state = node(NodeStatus.QUARANTINED, case=case)
    assert waits_for_provider(state) is waits
    assert may_change_instance(state) is (waits or case in (None, ESCALATED))


@pytest.mark.parametrize(
    ("status", "may"),
    [(None, False), (NodeStatus.RETIRED, False), (NodeStatus.REPLACING, False), (NodeStatus.HEALTHY, True)],
)
def test_the_instance_of_a_node_that_is_retired_replaced_or_unregistered_is_not_changed(
    status: NodeStatus | None, may: bool
) -> None:
    assert may_change_instance(node(status)) is may
