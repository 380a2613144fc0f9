"""A shadow policy records what it would have decided about a new fault, and changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.observe import observe
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import EntryType, RepairAction
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Policy, Rule
from faultbridge.model.values import replace
from tests.builders import CATALOG, NOON, POLICY, after, arrival, data_of, fault, node, rules


def observed(shadow: Policy | None, *codes: str, state=None, now=NOON, policy: Policy = POLICY) -> Transition:
    given = rules(policy=policy, shadow=shadow)
    arrivals = [arrival(fault(code), now, f"r-{code}-{now}") for code in codes]
    return observe(state or node(), arrivals, rules=given, catalog=CATALOG, now=now)


def shadow(**fields: object) -> Policy:
    return Policy("candidate", (Rule("all", **fields),))


def notes(transition: Transition) -> list[Draft]:
    return [one for one in transition.drafts if data_of(one).get("kind") == "would_have_done"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"isolate": False, "wait_seconds": 300}, "replace_node, node kept in service until the repair, after 300 s"),
        ({"action": Action.RESET_GPU}, "reset_gpu"),
        ({"action": Action.NONE}, "no case"),
        ({"repair_actions": ()}, "escalated to an operator"),
        ({"approval": (RepairAction.REPLACE_NODE,)}, "with approval"),
        ({"dry_run": True}, "only reported"),
    ],
)
def test_a_decision_that_differs_is_noted_with_the_case_of_the_policy_in_force(fields, text) -> None:
    decided = observed(shadow(**fields), "xid.79")
    (note,) = notes(decided)
    assert decided.state.case is not None
    assert note.case_id == decided.state.case.id
    assert text in data_of(note)["text"].split("; decided:")[0]
    assert data_of(note)["text"].endswith("; decided: replace_node")
    assert (data_of(note)["facts"]["shadow"], data_of(note)["facts"]["policy"]) == (True, "candidate")


def test_the_same_decision_is_not_noted() -> None:
    assert notes(observed(shadow(), "xid.79")) == []
    assert notes(observed(None, "xid.79")) == []


def test_a_case_that_only_the_shadow_would_open_is_noted_once() -> None:
    quiet = Policy("quiet", (Rule("none", Match(), action=Action.NONE),))
    first = observed(POLICY, "xid.79", policy=quiet)
    assert [data_of(one)["facts"]["repair_action"] for one in notes(first)] == ["replace_node"]
    again = observed(POLICY, "xid.79", state=first.state, now=after(minutes=1), policy=quiet)
    assert notes(again) == []


def test_an_order_of_an_operator_gets_no_note() -> None:
    decided = observed(shadow(isolate=False), "operator.quarantine")
    assert decided.state.live_case is not None
    assert notes(decided) == []


def test_a_node_with_a_live_case_gets_no_note() -> None:
    first = observed(None, "xid.79")
    assert notes(observed(shadow(isolate=False), "xid.48", state=first.state, now=after(minutes=1))) == []


@given(
    st.lists(st.sampled_from(["xid.79", "xid.48", "xid.94", "xid.31", "net.link_down", "host.silent"]), max_size=4),
    st.fixed_dictionaries(
        {},
        optional={
            "isolate": st.booleans(),
            "wait_seconds": st.sampled_from([0, 90]),
            "action": st.sampled_from(Action),
            "dry_run": st.booleans(),
        },
    ),
)
def test_a_shadow_policy_changes_nothing_but_the_note(codes, fields) -> None:
    alone, beside = observed(None, *codes), observed(shadow(**fields), *codes)
    assert replace(beside, drafts=tuple(one for one in beside.drafts if one not in notes(beside))) == alone
    assert len(notes(beside)) <= 1


def test_a_change_of_a_known_fault_without_a_case_gets_no_note() -> None:
    quiet = Policy("quiet", (Rule("none", Match(), action=Action.NONE),))
    state = observed(None, "xid.79", policy=quiet).state
    other = arrival(fault("xid.79", source="dcgm"), after(minutes=1), "r-2")
    given = rules(policy=quiet, shadow=POLICY)
    later = observe(state, [other], rules=given, catalog=CATALOG, now=after(minutes=1))
    assert [one.type for one in later.drafts] == [EntryType.FAULT_UPDATED]
    assert later.state.live_case is None


def test_a_wait_for_other_nodes_with_the_same_fault_is_no_waiting_period_of_the_shadow_policy() -> None:
    (note,) = notes(observed(shadow(repair_actions=()), "net.link_down"))
    assert data_of(note)["facts"]["wait_seconds"] == 0
    assert "escalated to an operator; decided: " in data_of(note)["text"]
