"""The repair queue shows admission few cases, and admission decides as if it saw all of them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.admit import Admission, admit
from faultbridge.decide.isolation_budget import BudgetNode, IsolationUse
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.state import Breaker, BreakerState, Control
from faultbridge.model.cluster.vacancies import Vacancy
from faultbridge.model.enums import DomainKind, RepairAction, WaitingFor
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Limits, Match, Policy, Rule
from faultbridge.model.storage.node_rows import QueuedCase
from tests.builders import NOON
from tests.lab.product import repair_queue
from tests.lab.product.repair_queue import SMALL, RepairQueue

pytestmark = pytest.mark.nightly  # of a tool of maintainers, which nothing that is installed contains

CLUSTER = FailureDomain(DomainKind.CLUSTER, "train-a")

MAX_REFUSALS = 20
"""Fewer than the queues of these tests contain, so that one run does not record all refusals."""

RULES = (Rule("plain"), Rule("asks", Match(), approval=(RepairAction.REPLACE_NODE,)))
REASONS = (
    (WaitingFor.BUDGET, ""),
    (WaitingFor.BUDGET, "the policy's limit of concurrent repairs is reached"),
    (WaitingFor.BUDGET, "the policy's limit of repairs per hour is reached"),
    (WaitingFor.CAPACITY, "no host"),
    (WaitingFor.APPROVAL, "asked"),
    (None, ""),
)
MINUTES = st.integers(-90, 90).map(lambda minutes: NOON + timedelta(minutes=minutes))


@pytest.fixture(scope="module", autouse=True)
def few_refusals_in_one_run() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repair_queue, "MAX_REFUSALS", MAX_REFUSALS)
        yield


@st.composite
def queues(draw: st.DrawFn) -> list[QueuedCase]:
    number = draw(st.integers(SMALL + 1, 120))
    random = draw(st.randoms(use_true_random=False))
    found = []
    for one in range(number):
        waiting_for, reason = random.choice(REASONS)
        delay = random.choice((None, None, -5, 5))
        found.append(
            QueuedCase(
                NodeKey("train-a", f"node-{one}"),
                f"case-{one}",
                random.choice(list(RepairAction)),
                random.randrange(3),
                NOON - timedelta(minutes=random.randrange(60)),
                waiting_for,
                None if delay is None else NOON + timedelta(minutes=delay),
                random.choice(RULES).name,
                group=random.choice(("workers", "others")),
                approval_pending=random.random() < 0.1,
                reason=reason,
                needs_permit=random.random() < 0.2,
                domains=(CLUSTER,),
            )
        )
    return found


@st.composite
def uses(draw: st.DrawFn) -> IsolationUse:
    """Return the use of a budget that is used up, or nearly so, while some of the queued nodes wait."""
    out = [BudgetNode(f"out-{one}", (CLUSTER,), out=True, holds=draw(st.booleans())) for one in range(3)]
    waiting = draw(st.sets(st.integers(0, 30), max_size=4))
    waits = [BudgetNode(f"node-{one}", (CLUSTER,), out=False, waits=True, urgency=(-one, "")) for one in waiting]
    return IsolationUse((*out, *waits), {CLUSTER: 10 * draw(st.integers(2, 4))}, 10)


@st.composite
def controls(draw: st.DrawFn) -> Control:
    breakers = st.sampled_from(
        [{}, *({"cluster": Breaker(state, NOON - timedelta(minutes=30), trial=2)} for state in BreakerState)]
    )
    return Control(
        "train-a",
        holders={f"held-{one}": NOON for one in range(draw(st.integers(0, 6)))},
        starts=tuple(draw(st.lists(MINUTES, max_size=6))),
        breakers=draw(breakers),
        no_capacity_until=draw(st.dictionaries(st.just("workers"), MINUTES, max_size=1)),
        vacancies=tuple(
            Vacancy(f"node-{one}", "workers", f"case-{one}", draw(MINUTES))
            for one in draw(st.sets(st.integers(0, 30), max_size=3))
        ),
    )


@given(queues(), controls(), uses(), st.integers(0, 20), st.integers(0, 20))
def test_admission_decides_about_the_shown_cases_as_about_all(queue, control, use, concurrent, per_hour) -> None:
    policy = Policy("1", RULES, limits=Limits(concurrent=concurrent, per_hour=per_hour))
    queued_cases = RepairQueue()
    for queued in queue:
        queued_cases.put(queued)
    few = queued_cases.shown_to(control, policy, NOON, use=use)
    assert effects(admit(control, policy, few, NOON, use=use)) == effects(admit(control, policy, queue, NOON, use=use))


def test_a_full_budget_needs_one_case_of_each_class() -> None:
    policy, queue = Policy("1", RULES[:1], limits=Limits(concurrent=2)), RepairQueue()
    recorded = "the policy's limit of concurrent repairs is reached"
    for one in range(1000):
        queue.put(
            QueuedCase(
                NodeKey("train-a", f"node-{one}"),
                f"case-{one}",
                RepairAction.REPLACE_NODE,
                0,
                NOON,
                WaitingFor.BUDGET,
                rule="plain",
                reason=recorded,
            )
        )
    assert len(queue.shown_to(Control("train-a", holders={"a": NOON, "b": NOON}), policy, NOON)) == 1
    assert len(queue.shown_to(Control("train-a", holders={"a": NOON}), policy, NOON)) == 2


@given(queues(), controls(), controls(), st.integers(0, 20))
def test_a_further_question_is_answered_as_by_a_queue_that_was_never_asked(queue, first, second, per_hour) -> None:
    policy, asked = Policy("1", RULES, limits=Limits(concurrent=4, per_hour=per_hour)), RepairQueue()
    other = Policy("2", RULES[:1], limits=Limits(concurrent=1))
    for queued in queue[1:]:
        asked.put(queued)
    later, excluded = NOON + timedelta(minutes=7), frozenset({queue[5].case})
    for control in (first, first, second, first):
        for question in ((control, policy, NOON), (control, other, NOON), (control, policy, NOON, excluded)):
            assert shown(asked, *question) == shown(fresh(queue[1:]), *question)
    assert asked.unrecorded(first, policy, NOON) == fresh(queue[1:]).unrecorded(first, policy, NOON)
    asked.put(queue[0])
    assert shown(asked, first, policy, NOON) == shown(fresh(queue), first, policy, NOON)
    asked.remove(queue[1].key)
    assert shown(asked, first, policy, later) == shown(fresh([queue[0], *queue[2:]]), first, policy, later)


def shown(queue: RepairQueue, *question) -> set[str]:
    """Return the ids of the shown cases; admission sorts them itself."""
    return {queued.case for queued in queue.shown_to(*question)}


def fresh(queue: list[QueuedCase]) -> RepairQueue:
    """Return a new queue of these cases."""
    made = RepairQueue()
    for queued in queue:
        made.put(queued)
    return made


def effects(admission: Admission) -> tuple[object, ...]:
    """Return what a run of admission changes: the cases that it picks, and the refusals that it records."""
    changed = islice((one for one in admission.refusals if not one.recorded), MAX_REFUSALS)
    return admission.picks, tuple(changed)
