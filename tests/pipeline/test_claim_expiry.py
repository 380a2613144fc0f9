"""A claimed fault that nothing proves or confirms ends a fixed time after its first claim."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.decide.case_moves import due_at
from faultbridge.decide.fold.claims import confirm_claims
from faultbridge.decide.fold.expire import expire
from faultbridge.decide.observe import observe, tick
from faultbridge.model.faults import Clear
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits, Policy
from tests.builders import CATALOG, DEFAULT_RULE, GPU, NOON, after, arrival, data_of, fault, folded, node, rules

TTL = Limits().claim_ttl
EXPIRY = NOON + TTL


def claimed(
    state: NodeState | None = None, *, code: str = "xid.79", source: str = "prometheus", **at: float
) -> NodeState:
    """Return the node after a claim that was observed and received some time after noon."""
    now = after(**at)
    return folded(state or node(), arrival(fault(code, source=source), now, claimed=True), now=now).state


def remaining(state: NodeState, **later: float) -> list[str]:
    """Return the codes of the active conditions this much after the expiry of a claim of noon."""
    return [one.code for one in expire(state, now=EXPIRY + timedelta(**later)).state.active()]


def test_a_claimed_fault_ends_when_its_time_is_over() -> None:
    state = claimed()
    assert due_at(state) == EXPIRY
    assert remaining(state, milliseconds=-1) == ["xid.79"]
    passed = tick(state, rules=rules(), now=EXPIRY)
    assert passed.state.conditions == {}
    (ended,) = [draft for draft in passed.drafts if draft.type.value == "Node Fault Cleared"]
    assert ended.occurred_at == EXPIRY
    assert "claim_ttl" in data_of(ended)["reason"]


def test_repeated_claims_of_any_sender_do_not_extend_the_time() -> None:
    state = claimed(claimed(claimed(), minutes=30), minutes=59, source="grafana")
    assert due_at(state) == EXPIRY
    assert remaining(state) == []


def test_the_time_starts_when_the_first_claim_is_received() -> None:
    old = arrival(fault(source="prometheus"), after(hours=-3), claimed=True)
    state = folded(node(), old, now=NOON).state
    assert (next(state.active()).since, due_at(state)) == (after(hours=-3), EXPIRY)


def test_the_policy_sets_the_time() -> None:
    policy = Policy("p", (DEFAULT_RULE,), Limits(claim_ttl=timedelta(minutes=5)))
    claim = arrival(fault(source="prometheus"), claimed=True)
    observed = observe(node(), [claim], rules=rules(policy=policy), catalog=CATALOG, now=NOON)
    assert observed.state.due_at == after(minutes=5)


def test_a_fault_that_the_node_reports_too_has_no_such_time() -> None:
    both = folded(claimed(), arrival(fault(), after(minutes=1))).state
    assert due_at(both) is None
    assert remaining(both, days=1) == ["xid.79"]
    withdrawn = folded(both, arrival(Clear("kernel-log", "xid.79", GPU, "over"), after(minutes=2))).state
    assert (due_at(withdrawn), remaining(withdrawn)) == (EXPIRY, [])


def test_a_claim_that_a_failed_verification_confirmed_has_no_such_time() -> None:
    confirmed = confirm_claims(claimed(), NOON)
    assert due_at(confirmed) is None
    assert remaining(confirmed, days=1) == ["xid.79"]


def test_a_claim_that_names_the_device_does_not_extend_the_time_of_one_that_did_not() -> None:
    general = folded(node(), arrival(fault("xid.79", type(GPU)(GPU.type), source="prometheus"), claimed=True)).state
    state = claimed(general, minutes=10)
    (condition,) = state.conditions.values()
    assert (condition.component.pci, due_at(state)) == (GPU.pci, EXPIRY)


def test_a_claim_ends_earlier_if_its_fault_was_not_observed_for_its_quiet_period() -> None:
    short = Limits(claim_ttl=timedelta(hours=2))
    policy = Policy("p", (DEFAULT_RULE,), short)
    claim = arrival(fault("xid.92", source="prometheus"), claimed=True)
    observed = observe(node(), [claim], rules=rules(policy=policy), catalog=CATALOG, now=NOON)
    assert observed.state.due_at == after(hours=1)
    assert expire(observed.state, now=after(hours=1)).changes[0].reason.startswith("no further observation")
