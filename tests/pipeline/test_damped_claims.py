"""After a claim was refuted or expired, further claims of its source with the same code are notes for a day."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from faultbridge.decide.fold.changes import ChangeKind, Folded
from faultbridge.decide.fold.claims import MAX_DAMPED, confirm_claims
from faultbridge.decide.fold.expire import end_claims, expire
from faultbridge.decide.observe import observe
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import Clear, Fault, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.records import Outcome
from tests.builders import CATALOG, GPU, NOON, OTHER_GPU, after, arrival, fault, folded, node, rules

EXPIRY = NOON + Limits().claim_ttl
DAY = timedelta(hours=24)


def claim(state: NodeState, at: datetime = NOON, code: str = "xid.79", **others: Any) -> Folded:
    """Fold a claim that is received when it is made."""
    given = {"source": "prometheus"} | others
    return folded(state, arrival(fault(code, **given), at, claimed=True), now=at)


def codes(state: NodeState) -> list[str]:
    return [one.code for one in state.active()]


def expired(*codes: str) -> NodeState:
    """Return a node whose claims of noon expired."""
    state = node()
    for code in codes or ("xid.79",):
        state = claim(state, code=code).state
    return expire(state, now=EXPIRY).state


def refuted_by_snapshot() -> NodeState:
    seen = Snapshot("nvidia-smi-xml", {"xid.79": (GPU,)})
    return folded(claim(node()).state, arrival(seen, EXPIRY), now=EXPIRY).state


def refuted_by_diagnostics() -> NodeState:
    return end_claims(claim(node()).state, at=EXPIRY, covers=lambda _: True).state


@pytest.mark.parametrize("end", [expired, refuted_by_snapshot, refuted_by_diagnostics])
def test_a_claim_of_a_damped_source_opens_no_condition_for_a_day(end: Callable[[], NodeState]) -> None:
    state = end()
    assert codes(state) == []
    again = claim(state, EXPIRY + timedelta(minutes=1))
    assert codes(again.state) == []
    (change,) = again.changes
    assert (change.kind, change.fault and change.fault.code) == (ChangeKind.NOTED, "xid.79")
    assert change.reason == "a claim is ignored because earlier ones were refuted or expired"
    assert set(again.outcomes.values()) == {Outcome.RECORDED}
    later = claim(again.state, EXPIRY + timedelta(minutes=2))
    assert (later.changes, set(later.outcomes.values())) == ((), {Outcome.FOLDED})
    assert codes(claim(state, EXPIRY + DAY - timedelta(minutes=1)).state) == []
    assert codes(claim(state, EXPIRY + DAY).state) == ["xid.79"]


def test_a_note_about_a_damped_claim_changes_neither_status_nor_case() -> None:
    at = EXPIRY + timedelta(minutes=1)
    seen = [arrival(fault(source="prometheus"), at, claimed=True)]
    observed = observe(expired(), seen, rules=rules(), catalog=CATALOG, now=at)
    assert [draft.type.value for draft in observed.drafts] == ["Node Note Recorded"]
    assert observed.state.case is None


def test_another_name_of_the_same_code_and_another_device_are_damped_too() -> None:
    at = EXPIRY + timedelta(minutes=1)
    assert codes(claim(expired(), at, "smi.gpu_lost", component=OTHER_GPU).state) == []


@pytest.mark.parametrize(
    ("code", "source", "is_claim"),
    [("xid.48", "prometheus", True), ("xid.79", "grafana", True), ("xid.79", "prometheus", False)],
    ids=["another code", "another source", "proven"],
)
def test_no_other_report_is_damped(code: str, source: str, *, is_claim: bool) -> None:
    at = EXPIRY + timedelta(minutes=1)
    assert codes(folded(expired(), arrival(fault(code, source=source), at, claimed=is_claim), now=at).state) == [code]


def test_a_claimed_snapshot_loses_only_its_damped_faults() -> None:
    at = EXPIRY + timedelta(minutes=1)
    kept, damped = fault("xid.48", source="prometheus"), fault("xid.79", source="prometheus")
    seen = Snapshot("prometheus", {"xid.48": (GPU,), "xid.79": (GPU,)}, (damped, kept))
    result = folded(expired(), arrival(seen, at, claimed=True), now=at)
    assert codes(result.state) == ["xid.48"]
    assert [change.kind for change in result.changes] == [ChangeKind.NOTED, ChangeKind.BEGAN]


@pytest.mark.parametrize("end", ["withdrawn", "quiet"])
def test_a_claim_that_its_sender_withdraws_or_no_longer_makes_damps_nothing(end: str) -> None:
    code = "xid.79" if end == "withdrawn" else "xid.92"
    state = claim(node(), code=code).state
    if end == "withdrawn":
        over = arrival(Clear("prometheus", code, GPU, "over"), after(minutes=5), claimed=True)
        state = folded(state, over, now=after(minutes=5)).state
    else:
        state = expire(state, now=after(hours=1)).state
    assert (codes(state), dict(state.damped)) == ([], {})


def test_a_claim_that_was_true_damps_nothing() -> None:
    both = folded(claim(node()).state, arrival(fault(), after(minutes=1))).state
    over = arrival(Clear("kernel-log", "xid.79", GPU, "over"), after(minutes=2))
    assert dict(expire(folded(both, over).state, now=EXPIRY).state.damped) == {}
    confirmed = confirm_claims(claim(node()).state, NOON)
    assert dict(end_claims(confirmed, at=EXPIRY, covers=lambda _: True).state.damped) == {}


def test_the_claims_that_a_node_stores_as_damped_are_limited_and_expire() -> None:
    many = expired(*(f"mapped.{number}" for number in range(MAX_DAMPED + 4)))
    assert len(many.damped) == MAX_DAMPED
    at = EXPIRY + DAY
    state = expire(claim(many, at).state, now=at + Limits().claim_ttl).state
    assert dict(state.damped) == {"prometheus xid.79": at + Limits().claim_ttl + DAY}


def test_notes_about_damped_claims_leave_room_for_the_notes_of_the_node() -> None:
    state, at = expired(*(f"mapped.{number}" for number in range(MAX_DAMPED))), EXPIRY + timedelta(minutes=1)
    noted = 0
    for number in range(MAX_DAMPED):
        result = claim(state, at, f"mapped.{number}")
        state, noted = result.state, noted + len(result.changes)
    assert noted == 7
    own = Fault("kernel-log", "xid.31", GPU, "seen", severity=Severity.INFO)
    assert [one.fault for one in folded(state, arrival(own, at), now=at).changes] != [None]
