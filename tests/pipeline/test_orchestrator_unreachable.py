"""A repair proceeds without its orchestrator only with a proof that the instance is unusable, and as its rule says."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decide.governing_rules import orchestrator_timed_out, proof_of_failure, reason_to_proceed
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.model.cases import Case
from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import NODE_COMPONENT
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits, OrchestratorUnreachable, Policy, Rule
from faultbridge.model.values import replace
from tests.builders import GPU, NOON, after, arrival, fault, folded, node

LIMIT = timedelta(minutes=10)
CASE = Case(
    "c-1",
    CaseStatus.QUEUED,
    NOON,
    "xid.79",
    GPU,
    Severity.FATAL,
    Action.REPLACE_NODE,
    RepairAction.REPLACE_NODE,
    "r",
    "p",
)


def policy(response: OrchestratorUnreachable = OrchestratorUnreachable.PROCEED) -> Policy:
    return Policy("p", (Rule("r", orchestrator_unreachable=response),), Limits(orchestrator_timeout=LIMIT))


def gone(
    code: str = "cloud.instance_gone",
    source: str = "ec2-event",
    incarnation: IncarnationMatch = IncarnationMatch.CURRENT,
    *,
    claimed: bool = False,
) -> NodeState:
    """Return a node whose instance is gone, with a case and an orchestrator that has not responded since noon."""
    report = arrival(fault(code, NODE_COMPONENT, source=source), incarnation=incarnation, claimed=claimed)
    return folded(node(NodeStatus.DEGRADED, case=CASE, orchestrator_lost_at=NOON), report).state


@pytest.mark.parametrize(
    ("state", "proven"),
    [
        (gone(), True),
        (gone("cloud.system_impaired", "ec2-status"), True),
        (gone(source="ec2-status"), False),
        (gone("cloud.system_impaired", "ec2-event"), False),
        (gone("xid.79", "ec2-event"), False),
        (gone(incarnation=IncarnationMatch.UNKNOWN), False),
        (gone(claimed=True), False),
        (node(NodeStatus.DEGRADED), False),
    ],
)
def test_only_ec2_proves_that_an_instance_is_unusable(state: NodeState, proven: bool) -> None:
    assert (proof_of_failure(state) is not None) is proven


def test_the_proof_names_its_reporter_and_its_fault() -> None:
    assert proof_of_failure(gone()) == "ec2-event reports cloud.instance_gone: the instance is unusable"


@pytest.mark.parametrize(("minutes", "over"), [(9, False), (10, True), (11, True)])
def test_an_orchestrator_has_the_time_of_the_policy_to_respond(minutes: int, over: bool) -> None:
    assert orchestrator_timed_out(gone(), policy(), after(minutes=minutes)) is over
    assert (reason_to_proceed(gone(), policy(), after(minutes=minutes)) is not None) is over
    assert not orchestrator_timed_out(replace(gone(), orchestrator_lost_at=None), policy(), after(minutes=minutes))


@pytest.mark.parametrize(
    ("state", "response"),
    [
        (gone(), OrchestratorUnreachable.HOLD),
        (replace(gone(), case=None), OrchestratorUnreachable.PROCEED),
        (gone(source="kernel-log"), OrchestratorUnreachable.PROCEED),
        (replace(gone(), orchestrator_lost_at=None), OrchestratorUnreachable.PROCEED),
    ],
)
def test_a_repair_waits_without_a_rule_a_case_or_a_proof(state: NodeState, response: OrchestratorUnreachable) -> None:
    assert reason_to_proceed(state, policy(response), after(hours=1)) is None
