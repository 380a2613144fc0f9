"""A claim ends when a later health snapshot of the node itself checks for its fault and does not find it."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.decide.fold.changes import Arrival, ChangeKind
from faultbridge.decide.fold.claims import confirm_claims
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Snapshot
from faultbridge.model.nodes import NodeState
from tests.builders import GPU, NOON, OTHER_GPU, after, arrival, fault, folded, node


def claimed(*others: Arrival) -> NodeState:
    """Return a node with a claim of `xid.79` about a GPU."""
    return folded(node(), arrival(fault(source="prometheus"), claimed=True), *others).state


def clean(code: str = "xid.79", *components: Component, present: tuple[Fault, ...] = ()) -> Snapshot:
    return Snapshot("nvidia-smi-xml", {code: components or (GPU,)}, present)


LATER = after(minutes=1)


def test_a_snapshot_of_any_source_that_does_not_find_a_claimed_fault_ends_the_claim() -> None:
    result = folded(claimed(), arrival(clean(), LATER, "r-2"))
    assert result.state.conditions == {}
    (ended,) = result.changes
    assert (ended.kind, ended.at, ended.record_id) == (ChangeKind.ENDED, LATER, "r-2")
    assert ended.reason == "refuted by the health snapshot of nvidia-smi-xml"
    assert folded(result.state, arrival(fault(source="prometheus"), claimed=True)).state.conditions == {}


def test_another_name_of_the_same_code_refutes_the_claim_too() -> None:
    assert folded(claimed(), arrival(clean("smi.gpu_lost"), LATER)).state.conditions == {}


@pytest.mark.parametrize(
    ("seen", "others"),
    [
        (clean(), {"claimed": True}),
        (clean(), {"at": NOON}),
        (clean(), {"at": after(minutes=-1)}),
        (clean(), {"incarnation": IncarnationMatch.UNKNOWN}),
        (clean(), {"incarnation": IncarnationMatch.EARLIER}),
        (clean("xid.48"), {}),
        (clean("xid.79", OTHER_GPU, NODE_COMPONENT), {}),
    ],
    ids=["a claim", "same time", "earlier", "unknown boot", "earlier boot", "another code", "another component"],
)
def test_a_snapshot_that_proves_nothing_about_a_claim_does_not_end_it(seen: Snapshot, others: dict[str, Any]) -> None:
    state = folded(claimed(), arrival(seen, **({"at": LATER} | others))).state
    (condition,) = state.conditions.values()
    assert condition.sources == {"prometheus"}


def test_a_snapshot_that_shows_a_claimed_fault_proves_it() -> None:
    state = folded(claimed(), arrival(clean(present=(fault(source="nvidia-smi-xml"),)), LATER)).state
    (condition,) = state.conditions.values()
    assert not condition.claimed


def test_a_claim_that_a_failed_verification_confirmed_is_not_refuted() -> None:
    state = confirm_claims(claimed(), NOON)
    assert folded(state, arrival(clean(), LATER)).state.conditions == state.conditions


def test_beside_a_report_of_the_node_only_the_claim_ends() -> None:
    both = claimed(arrival(fault(), after(seconds=1)))
    result = folded(both, arrival(clean(), LATER))
    (condition,) = result.state.conditions.values()
    assert condition.sources == {"kernel-log"}
    assert [(one.kind, one.changed_parts) for one in result.changes] == [(ChangeKind.UPDATED, ("reporters",))]


def test_more_claims_than_one_commit_may_end_are_refuted_in_several() -> None:
    codes = [f"mapped.{number}" for number in range(50)]
    state = folded(node(), *(arrival(fault(code, source="prometheus"), claimed=True) for code in codes)).state
    assert len(state.conditions) == len(codes)
    seen = Snapshot("nvidia-smi-xml", dict.fromkeys(codes, (GPU,)))
    assert folded(state, arrival(seen, LATER)).state.conditions == {}
