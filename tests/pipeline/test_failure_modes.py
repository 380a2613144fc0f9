"""Failure modes: reports of one failure are one condition, with one case and one action under any code."""

from __future__ import annotations

from datetime import timedelta
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.observe import observe
from faultbridge.decode.data import load_catalog
from faultbridge.model.entries import Transition
from faultbridge.model.enums import EntryType, RepairAction
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Clear, Component, Fault, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Match, Policy, Rule
from faultbridge.model.values import replace
from tests.builders import GPU, NOON, OTHER_GPU, after, arrival, data_of, fault, node, rules

CATALOG = load_catalog()
ANY_GPU = Component(ComponentType.GPU)
REPORTS = (
    fault("xid.48"),
    fault("dcgm.dbe_violation", source="dcgm-policy"),
    fault("dcgm.volatile_dbe_detected", source="dcgm-health"),
    fault("agent.double_bit_error", ANY_GPU, source="eks-node-condition"),
    fault("train.cuda_ecc", source="training-log"),
)
"""Five reporters of one double-bit error; the EKS node condition names no GPU."""

KEY = "gpu.ecc_uncorrectable@gpu/pci=0000:c1:00"


def observed(state: NodeState, *arrivals: Arrival, policy: Policy | None = None) -> Transition:
    """Return the node after these observations, each in a commit of its own, with the entries of all commits."""
    transition = Transition(state)
    given_ = {"catalog": CATALOG} | ({"policy": policy} if policy else {})
    for one in arrivals:
        following = observe(transition.state, [one], rules=rules(**given_), catalog=CATALOG, now=one.at)
        transition = Transition(following.state, (*transition.drafts, *following.drafts))
    return transition


def over(one: Fault, minutes: float) -> Arrival:
    return arrival(Clear(one.source, one.code, one.component, "over"), after(minutes=minutes))


@given(st.permutations(REPORTS), st.lists(st.integers(0, 59), min_size=5, max_size=5))
def test_five_reporters_of_one_failure_in_any_order_within_an_hour_are_one_condition_and_one_action(
    order: list[Fault], minutes: list[int]
) -> None:
    arrivals = [
        arrival(one, after(minutes=at), f"r-{place}")
        for place, (one, at) in enumerate(zip(order, sorted(minutes), strict=True))
    ]
    result = observed(node(), *arrivals)
    assert list(result.state.conditions) == [KEY]
    condition = result.state.conditions[KEY]
    assert (condition.count, condition.severity, condition.action) == (1, Severity.FATAL, Action.RESET_GPU)
    assert condition.codes == {one.code for one in REPORTS}
    assert [one.type for one in result.drafts].count(EntryType.FAULT_DETECTED) == 1
    assert EntryType.FAULT_CLEARED not in [one.type for one in result.drafts]
    cases = [data_of(one) for one in result.drafts if one.type is EntryType.CASE_STATUS]
    assert len({one["opened_at"] for one in cases}) == 1
    assert result.state.live_case is not None
    assert result.state.live_case.repair_action is RepairAction.RESET_GPU


def test_each_further_code_is_one_update_and_at_most_eight_an_hour() -> None:
    codes = [row.code for row in CATALOG.rows.values() if row.mode == "gpu.ecc_uncorrectable" and ":" not in row.code]
    arrivals = [arrival(fault(code), after(seconds=number), f"r-{number}") for number, code in enumerate(codes)]
    drafts = [data_of(one) for one in observed(node(), *arrivals).drafts if one.type is EntryType.FAULT_UPDATED]
    assert [one["added_code"] for one in drafts if "added_code" in one] == codes[1:9]
    assert drafts[0]["codes"] == sorted(codes[:2])
    assert {one["code"] for one in drafts} == {codes[0]}


def test_the_milder_override_of_a_row_lowers_no_condition_and_counts_alone_after_the_other_report_ended() -> None:
    fatal, mild = fault("xid.48"), fault("smi.ecc_uncorrectable", source="nvidia-smi-xml")
    for order in permutations((fatal, mild)):
        both = observed(node(), *(arrival(one, after(seconds=at)) for at, one in enumerate(order))).state
        assert both.conditions[KEY].severity is Severity.FATAL
        left = observed(both, over(fatal, 1)).state
        assert (left.conditions[KEY].severity, left.conditions[KEY].codes) == (Severity.ERROR, {mild.code})


def test_five_reporters_do_not_satisfy_a_minimum_count_but_three_reports_of_one_do() -> None:
    often = Policy("often", (Rule("often", Match(modes=("gpu.*",), count=3), severity=Severity.WARNING),))
    once = observed(node(), *(arrival(one, after(minutes=at)) for at, one in enumerate(REPORTS)), policy=often).state
    assert once.conditions[KEY].severity is Severity.FATAL
    thrice = [arrival(REPORTS[0], after(minutes=at)) for at in range(3)]
    assert observed(node(), *thrice, policy=often).state.conditions[KEY].counted_within(24) == 3


@pytest.mark.parametrize(
    ("match", "found"),
    [
        (Match(codes=("dcgm.dbe_violation",)), True),
        (Match(modes=("gpu.ecc_*",)), True),
        (Match(codes=("train.cuda_ecc",)), False),
        (Match(modes=("gpu.lost",)), False),
    ],
)
def test_a_rule_matches_the_code_of_any_active_reporter_and_the_mode(match: Match, found: bool) -> None:
    both = observed(node(), arrival(REPORTS[0]), arrival(REPORTS[1], after(seconds=1))).state
    assert match.covers(both.conditions[KEY], "train-a") is found
    ended = observed(both, over(REPORTS[1], 1)).state
    assert Match(codes=("dcgm.dbe_violation",)).covers(ended.conditions[KEY], "train-a") is False


@pytest.mark.parametrize(
    ("action", "expected"), [(Action.NONE, Action.RESET_GPU), (Action.REPLACE_NODE, Action.REPLACE_NODE)]
)
def test_while_a_case_lives_a_rule_that_matches_later_can_only_make_a_condition_stricter(
    action: Action, expected: Action
) -> None:
    policy = Policy("p", (Rule("dcgm", Match(codes=("dcgm.*",)), action=action), Rule("all")))
    result = observed(node(), arrival(REPORTS[0]), arrival(REPORTS[1], after(seconds=1)), policy=policy)
    assert result.state.conditions[KEY].action is expected
    assert result.state.live_case is not None


CONSEQUENCES = (
    fault("xid.48"),
    fault("xid.154", attributes={"recovery_action": "0x1"}),
    fault("xid.63"),
    fault("xid.45"),
)


@pytest.mark.parametrize("order", list(permutations(CONSEQUENCES)), ids=lambda one: "-".join(each.code for each in one))
def test_a_memory_error_and_its_consequences_in_one_second_are_one_case_with_one_action(
    order: tuple[Fault, ...],
) -> None:
    result = observed(node(), *(arrival(one, after(milliseconds=at), f"r-{at}") for at, one in enumerate(order)))
    because = {one.mode: one.because_of for one in result.state.active()}
    assert because == {"gpu.ecc_uncorrectable": None, "gpu.reset_required": KEY, "gpu.row_remap_pending": KEY}
    assert len({one.case_id for one in result.drafts if one.type is EntryType.CASE_STATUS}) == 1
    assert result.state.live_case is not None
    assert result.state.live_case.repair_action is RepairAction.RESET_GPU


@pytest.mark.parametrize(
    ("component", "at", "explained"),
    [
        (GPU, timedelta(seconds=60), True),
        (GPU, timedelta(seconds=61), False),
        (OTHER_GPU, timedelta(0), False),
    ],
)
def test_a_failure_explains_only_what_follows_within_a_minute_on_its_device(
    component: Component, at: timedelta, explained: bool
) -> None:
    state = observed(node(), arrival(fault("xid.48")), arrival(fault("xid.63", component), NOON + at)).state
    (pending,) = (one for one in state.active() if one.mode == "gpu.row_remap_pending")
    assert (pending.because_of is not None, pending.action is Action.NONE) == (explained, explained)


def test_a_consequence_needs_its_own_action_again_after_its_cause_ended() -> None:
    both = observed(node(), arrival(fault("xid.48")), arrival(fault("xid.63"), after(seconds=1))).state
    (left,) = observed(both, over(fault("xid.48"), 1)).state.active()
    assert (left.mode, left.because_of, left.action) == ("gpu.row_remap_pending", None, Action.RESET_GPU)


def test_a_claim_explains_no_proven_fault() -> None:
    claim = arrival(fault("xid.48", source="webhook"), claimed=True)
    state = observed(node(), claim, arrival(fault("xid.63"), after(seconds=1))).state
    assert {one.because_of for one in state.active()} == {None}


def test_a_snapshot_ends_only_the_codes_that_it_covers_whatever_their_mode() -> None:
    seen = fault("smi.ecc_uncorrectable", source="nvidia-smi-xml")
    both = observed(node(), arrival(fault("xid.48")), arrival(seen, after(seconds=1))).state
    clean = Snapshot("nvidia-smi-xml", {"smi.ecc_uncorrectable": (GPU,)})
    left = observed(both, arrival(clean, after(minutes=1))).state
    assert left.conditions[KEY].codes == {"xid.48"}


def test_two_unknown_codes_are_two_conditions() -> None:
    state = observed(node(), arrival(fault("new.one")), arrival(fault("new.two"), after(seconds=1))).state
    assert sorted(one.mode for one in state.active()) == ["unclassified.new.one", "unclassified.new.two"]


def test_a_condition_has_a_mode_in_each_key_that_a_later_fault_looks_for() -> None:
    ended = observed(node(), arrival(REPORTS[0]), over(REPORTS[0], 1)).state
    assert list(ended.tombstones) == [KEY]
    again = observed(ended, arrival(replace(REPORTS[1]), after(minutes=2))).state
    assert again.conditions[KEY].ended_before == ended.tombstones[KEY].ended_at


def test_under_another_catalog_reports_and_tombstones_move_by_their_code_with_one_update() -> None:
    ended = observed(node(), arrival(fault("xid.79", OTHER_GPU)), over(fault("xid.79", OTHER_GPU), 1)).state
    before = observed(ended, arrival(REPORTS[0], after(minutes=2)), arrival(REPORTS[1], after(minutes=3))).state
    rows = {
        **CATALOG.rows,
        "dcgm.dbe_violation": replace(CATALOG.row("dcgm.dbe_violation"), mode="gpu.hang"),
        "xid.79": replace(CATALOG.row("xid.79"), mode="gpu.missing"),
    }
    other = replace(CATALOG, version="other", rows=rows)
    result = observe(before, [], rules=rules(catalog=other), catalog=other, now=after(minutes=4))
    moved = "gpu.hang@gpu/pci=0000:c1:00"
    assert {key: sorted(one.codes) for key, one in result.state.conditions.items()} == {
        moved: ["dcgm.dbe_violation"],
        KEY: ["xid.48"],
    }
    assert list(result.state.tombstones) == ["gpu.missing@gpu/pci=0000:53:00"]
    changed = [data_of(one) for one in result.drafts if one.type is EntryType.FAULT_UPDATED]
    assert [(one["failure_mode"], one["changed"]) for one in changed] == [("gpu.hang", ["mode"])]
    again = observe(result.state, [], rules=rules(catalog=other), catalog=other, now=after(minutes=5))
    assert (again.state, again.drafts) == (result.state, ())
