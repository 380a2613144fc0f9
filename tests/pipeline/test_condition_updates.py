"""Condition updates: what a first fault, a repeated fault and a second name of a device change in a condition."""

from __future__ import annotations

import pytest

from faultbridge.decide.fold.changes import ChangeKind
from faultbridge.decide.fold.condition_updates import add_report, digest, merge_conditions, new_condition
from faultbridge.decide.fold.fold import fold
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.decide.normalize.timestamp import CLOCK, SECONDS_OFF
from faultbridge.decode.data import load_catalog
from faultbridge.model.conditions import Condition, Reporter
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import NODE_COMPONENT, Clear
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace
from tests.builders import CATALOG, GPU, NOON, after, arrival, fault, folded, node


def only(state: NodeState) -> Condition:
    (condition,) = state.conditions.values()
    return condition


def new(code: str = "xid.48", **others: object) -> Condition:
    seen = fault(code, **others)
    return new_condition(CATALOG, seen, arrival(seen), None)


def test_a_condition_has_the_severity_and_action_that_its_source_states_else_those_of_the_catalog() -> None:
    stated = new("xid.92", severity=Severity.FATAL, action=Action.REBOOT_NODE)
    assert (stated.severity, stated.action) == (Severity.FATAL, Action.REBOOT_NODE)
    assert (new("xid.92").severity, new("xid.92").action) == (Severity.WARNING, Action.NONE)


def test_a_repeated_fault_makes_a_condition_worse_but_never_milder() -> None:
    mild = folded(node(), arrival(fault("xid.92"))).state
    worse = fault("xid.92", severity=Severity.FATAL, action=Action.REBOOT_NODE)
    result = folded(mild, arrival(worse, after(seconds=1)))
    assert result.changes[0].changed_parts == ("severity",)
    for state in (result.state, folded(result.state, arrival(fault("xid.92"), after(seconds=2))).state):
        reported = only(state).as_reported
        assert (reported.severity, reported.action) == (Severity.FATAL, Action.REBOOT_NODE)


@pytest.mark.parametrize(
    ("first", "second", "known"),
    [
        (IncarnationMatch.UNKNOWN, IncarnationMatch.UNKNOWN, False),
        (IncarnationMatch.UNKNOWN, IncarnationMatch.CURRENT, True),
        (IncarnationMatch.CURRENT, IncarnationMatch.UNKNOWN, True),
    ],
)
def test_the_incarnation_of_a_condition_is_known_once_one_observation_is_certain(
    first: IncarnationMatch, second: IncarnationMatch, known: bool
) -> None:
    begun = folded(node(), arrival(fault(), incarnation=first)).state
    assert only(begun).known_incarnation is (first is IncarnationMatch.CURRENT)
    repeated = folded(begun, arrival(fault(), after(seconds=1), incarnation=second)).state
    assert only(repeated).known_incarnation is known


def test_only_the_source_that_reports_an_ended_condition_again_asserts_it() -> None:
    both = folded(node(), arrival(fault()), arrival(fault(source="dcgm-health"), after(seconds=1))).state
    over = [Clear(source, "xid.79", GPU, "over") for source in ("kernel-log", "dcgm-health")]
    ended = folded(both, *(arrival(one, after(minutes=1)) for one in over)).state
    again = folded(ended, arrival(fault(), after(minutes=2))).state
    assert only(again).sources == {"kernel-log"}
    assert set(only(again).reporters) == {"kernel-log xid.79", "dcgm-health xid.79"}


def test_a_late_report_of_another_source_leaves_the_last_observation() -> None:
    begun = folded(node(), arrival(fault(), after(minutes=5))).state
    condition = only(folded(begun, arrival(fault(source="dcgm-health"), NOON)).state)
    assert condition.sources == {"kernel-log", "dcgm-health"}
    assert (condition.since, condition.last_at) == (NOON, after(minutes=5))


def test_faults_of_earlier_times_do_not_hide_a_second_fault_of_one_instant() -> None:
    earlier = [arrival(fault(), after(seconds=second)) for second in range(10)]
    same = [arrival(fault(evidence=text), after(seconds=9), text) for text in ("second", "third")]
    result = folded(node(), *earlier, *same)
    assert (result.outcomes["second"], result.outcomes["third"]) == (Outcome.FOLDED, Outcome.FOLDED)
    assert only(result.state).count == 12


def test_a_claim_that_is_repeated_counts_and_stays_a_claim() -> None:
    claims = [arrival(fault(), after(seconds=second), claimed=True) for second in range(2)]
    condition = only(folded(node(), *claims).state)
    assert (condition.claimed, condition.count) == (True, 2)
    confirmed = only(folded(node(), *(replace(one, claimed=False) for one in claims)).state)
    assert {one.claimed for one in confirmed.reporters.values()} == {None}


@pytest.mark.parametrize(
    ("seconds", "off", "text"),
    [(-1, "900", "first"), (0, "900", "again"), (1, "900", "again"), (1, "310", "first")],
)
def test_a_clock_that_was_set_gives_its_condition_the_text_of_the_latest_fault(
    seconds: int, off: str, text: str
) -> None:
    condition = new(CLOCK, message="first", attributes={SECONDS_OFF: "300"})
    again = fault(CLOCK, message="again", attributes={SECONDS_OFF: off})
    repeated = add_report(condition, CATALOG, again, arrival(again, after(seconds=seconds)))
    assert repeated.message == text
    assert repeated.attributes == (condition.attributes if text == "first" else again.attributes)


def test_merged_conditions_have_the_observations_of_both_in_each_hour() -> None:
    hours = ({"2026-02-03T10": 2, "2026-02-03T11": 3}, {"2026-02-03T11": 1, "2026-02-03T12": 4})
    first, second = (
        replace(new(), count=5, reporters={"a": Reporter(True, NOON, count=5, hours=one)}) for one in hours
    )
    merged = merge_conditions(first, second, CATALOG)
    assert merged.reporters["a"].hours == {"2026-02-03T10": 2, "2026-02-03T11": 4, "2026-02-03T12": 4}
    assert merged.count == 10


def test_merged_conditions_have_the_worst_severity_the_strongest_action_and_the_times_of_both() -> None:
    mild = new(severity=Severity.ERROR, action=Action.RESET_GPU)
    worse = new(severity=Severity.FATAL, action=Action.REPLACE_NODE)
    later = replace(worse, since=after(minutes=1), last_at=after(minutes=2))
    later = replace(later, reporters={"dcgm-health xid.48": later.reporters["kernel-log xid.48"]})
    for merged in (merge_conditions(mild, later, CATALOG), merge_conditions(later, mild, CATALOG)):
        assert (merged.severity, merged.reported_severity) == (Severity.FATAL, Severity.FATAL)
        assert (merged.action, merged.reported_action) == (Action.REPLACE_NODE, Action.REPLACE_NODE)
        assert (merged.since, merged.last_at) == (NOON, after(minutes=2))


@pytest.mark.parametrize("code", ["xid.48", "xid.61"])
def test_an_explained_report_keeps_its_stronger_action_and_severity(code: str) -> None:
    general = fault("agent.replace_required", NODE_COMPONENT, source="hyperpod-event")
    arrivals = [arrival(general), arrival(fault(code), after(seconds=1))]
    reported = only(fold(node(), arrivals, now=NOON, catalog=load_catalog(), limits=Limits()).state).as_reported
    assert (reported.code, reported.severity, reported.action) == (code, Severity.FATAL, Action.REPLACE_NODE)


def test_merged_conditions_keep_the_newer_report_of_each_source_and_are_known_if_one_is() -> None:
    older, newer = (Reporter(True, after(minutes=minutes)) for minutes in (1, 2))
    first = replace(new(), reporters={"a": older, "b": newer}, known_incarnation=False)
    second = replace(new(), reporters={"a": newer, "b": older, "c": older}, known_incarnation=True)
    merged = merge_conditions(first, second, CATALOG)
    assert (merged.reporters, merged.known_incarnation) == ({"a": newer, "b": newer, "c": older}, True)


def test_a_withdrawn_report_of_a_condition_that_another_source_asserts_is_recorded() -> None:
    both = folded(node(), arrival(fault()), arrival(fault(source="dcgm-health"))).state
    result = folded(both, arrival(Clear("dcgm-health", "xid.79", GPU, "over"), after(minutes=1)))
    (change,) = result.changes
    assert (change.kind, change.reason, change.changed_parts) == (ChangeKind.UPDATED, "over", ("reporters",))
    assert result.outcomes == {"r-1": Outcome.RECORDED}


def test_a_digest_has_16_characters_and_differs_for_other_evidence() -> None:
    one, other = digest(fault()), digest(fault(evidence="other"))
    assert (len(one), one == other) == (16, False)
