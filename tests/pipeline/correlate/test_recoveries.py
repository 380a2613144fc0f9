"""A fault that comes back after its nodes were healthy for the quiet period is another incident."""

from __future__ import annotations

from faultbridge.model.enums import IncidentStatus
from faultbridge.model.values import replace
from tests.builders import after
from tests.pipeline.correlate.builders import QUIET, RACK
from tests.pipeline.correlate.life_cycle import KINDS, affected, opened, run


def test_a_fault_after_a_quiet_period_whose_end_no_run_noticed_is_another_incident_with_an_age_of_its_own() -> None:
    first = opened([affected(number) for number in RACK])
    (recovering,) = run([], [first], after(minutes=30))
    again = after(minutes=31 + QUIET)
    later = [affected(number, again) for number in RACK]
    closed, second = sorted(run(later, [recovering.after], again), key=lambda one: one.after.opened_at)
    assert (closed.after.status, closed.after.closed_at) == (IncidentStatus.CLOSED, after(minutes=30 + QUIET))
    assert (second.before, second.after.status, second.after.opened_at) == (None, IncidentStatus.OPEN, again)
    assert run(later, [second.after], again) == []
    for minute in (29, 30):
        early = [affected(0, after(minutes=minute + QUIET)), *later[1:]]
        (grown,) = run(early, [recovering.after], again)
        assert (grown.after.id, grown.after.opened_at) == (first.id, first.opened_at)


def test_an_older_fault_of_a_node_that_is_still_active_continues_its_incident_although_a_newer_one_follows() -> None:
    first = opened([affected(number) for number in RACK])
    (recovering,) = run([], [first], after(minutes=30))
    again = after(minutes=31 + QUIET)
    later = [affected(number, again) for number in RACK]
    for since in (after(minutes=29 + QUIET), first.evidence_since):
        older = [replace(later[0], first=since), *later[1:]]
        (grown,) = run(older, [recovering.after], again)
        assert (grown.after.id, grown.after.opened_at) == (first.id, first.opened_at)
    unrelated = [replace(later[0], first=after(hours=-3)), *later[1:]]
    assert {one.kind for one in run(unrelated, [recovering.after], again)} == {KINDS.CLOSED, KINDS.OPENED}


def test_a_recovery_that_no_run_noticed_ends_an_incident_if_all_its_nodes_were_healthy_for_the_quiet_period() -> None:
    first = opened([affected(number) for number in RACK])
    recovered, again = after(minutes=30), after(minutes=31 + QUIET)
    later = [replace(affected(number, again), ended=recovered) for number in RACK]
    closed, second = sorted(run(later, [first], again), key=lambda one: one.after.opened_at)
    assert (closed.after.status, closed.after.closed_at) == (IncidentStatus.CLOSED, after(minutes=30 + QUIET))
    assert (second.before, second.after.opened_at, second.after.recurrence) == (None, again, 1)
    still_faulty = [affected(0), *later[1:]]
    soon = [replace(later[0], ended=after(minutes=32)), *later[1:]]
    unknown = [replace(later[0], ended=None), *later[1:]]
    older = [replace(later[0], ended=first.opened_at), *later[1:]]
    with_old_fault = [replace(later[0], first=after(hours=-3)), *later[1:]]
    for nodes in (still_faulty, soon, unknown, older, with_old_fault, later[1:]):
        assert {one.kind for one in run(nodes, [first], again)} <= {KINDS.SHRUNK}
    assert run(later, [second.after], again) == []


def test_a_recovery_that_a_late_run_noticed_counts_from_its_own_time() -> None:
    first = opened([affected(number) for number in RACK])
    (recovering,) = run([], [first], after(minutes=37))
    again = after(minutes=31 + QUIET)
    later = [replace(affected(number, again), ended=after(minutes=30)) for number in RACK]
    assert {one.kind for one in run(later, [recovering.after], again)} == {KINDS.CLOSED, KINDS.OPENED}


def test_a_fault_that_begins_when_the_previous_one_ends_leaves_no_recovery_between_them() -> None:
    (recovering,) = run([], [opened(affected(number) for number in RACK)], after(minutes=30))
    again = after(minutes=31 + QUIET)
    later = [replace(affected(number, again), ended=again) for number in RACK]
    assert {one.kind for one in run(later, [recovering.after], again)} == {KINDS.CLOSED, KINDS.OPENED}
