"""Builders of small valid domain objects; a test passes only the fields that it is about."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from faultbridge.decide.decide import Rules
from faultbridge.decide.entry_builder import component_data
from faultbridge.decide.fold.changes import Arrival, Folded
from faultbridge.decide.fold.fold import fold
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.decode import data
from faultbridge.model.canonical_json import event_json
from faultbridge.model.cases import Case
from faultbridge.model.catalog import Catalog, Row, Scope, WorkEffect
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.conditions import Condition, Reporter
from faultbridge.model.entries import Draft
from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction
from faultbridge.model.event_data import FaultData, plain
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component, Fault
from faultbridge.model.nodes import Head, Incarnation, NodeKey, NodeState, Placement
from faultbridge.model.policy import Limits, Policy, Rule
from faultbridge.model.storage import keys
from faultbridge.model.storage.codec import pack, unpack
from faultbridge.model.storage.writes import Update
from faultbridge.model.values import replace
from faultbridge.record.ports.table import Table

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/faultbridge/11111111-2222-3333-4444-555555555555"
KEY = NodeKey("train-a", "ip-10-0-0-7")
GPU = Component(ComponentType.GPU, pci="0000:c1:00")
OTHER_GPU = Component(ComponentType.GPU, pci="0000:53:00")

ROWS = (
    Row(
        "xid.79",
        "GPU off the bus",
        Severity.FATAL,
        Action.REPLACE_NODE,
        scope=Scope.INSTANCE,
        ends_on=("replace_node",),
        work=WorkEffect.DEVICE,
    ),
    Row(
        "xid.48",
        "double bit error",
        Severity.FATAL,
        Action.REPLACE_NODE,
        scope=Scope.DEVICE,
        ends_on=("replace_node",),
        work=WorkEffect.DEVICE,
    ),
    Row("xid.31", "MMU fault", Severity.INFO, Action.RESTART_APP, scope=Scope.PROCESS),
    Row("xid.92", "high rate of corrected errors", Severity.WARNING, Action.NONE, ends_on=("quiet:3600",)),
    Row(
        "smi.gpu_lost",
        "GPU is lost",
        Severity.FATAL,
        Action.REPLACE_NODE,
        mode="xid.79",
        work=WorkEffect.DEVICE,
    ),
    Row("smi.row_remap_pending", "row remap pending", Severity.WARNING, Action.NONE, scope=Scope.BOOT),
)
PACKAGED = ("operator.", "cloud.", "net.link_", "host.silent")
PACKAGED_ROWS = [row for code, row in data.load_catalog().rows.items() if code.startswith(PACKAGED)]
CATALOG = Catalog(
    "test.1",
    {row.code: row for row in (*(replace(one, mode=one.mode or one.code) for one in ROWS), *PACKAGED_ROWS)},
    data.verification_coverage(),
    data.verifiers_by_fault(),
    data.load_catalog().modes,
)
DEFAULT_RULE = Rule("default", release_without_capacity=True)
"""The rule that applies when no other rule matches."""

POLICY = Policy("test-policy", (DEFAULT_RULE,))


def after(**units: float) -> datetime:
    """Return a time after `NOON`, given as timedelta arguments."""
    return NOON + timedelta(**units)


def data_of(draft: Draft) -> dict[str, Any]:
    """Return the data of a draft as its event contains it, without evidence."""
    found: dict[str, Any] = json.loads(event_json(plain(draft.data)))
    return found


def fault_data(code: str = "xid.79", component: Component = GPU, message: str = "a fault") -> FaultData:
    """Return the data of an entry about a fault."""
    return FaultData(
        failure_mode=CATALOG.row(code).mode,
        code=code,
        codes=(code,),
        component=component_data(component),
        severity=Severity.FATAL,
        action=Action.REPLACE_NODE,
        message=message,
        since=NOON,
        observed_at=NOON,
        count=1,
        reporters=(),
        source=None,
        attributes={},
        changed=(),
        reason=None,
        incarnation=None,
        rule="default",
        policy="test-policy",
        catalog="test.1",
    )


def fault(code: str = "xid.79", component: Component = GPU, **others: Any) -> Fault:
    """Build a fault as a decoder returns it."""
    given = {"source": "kernel-log", "message": f"{code} happened", "evidence": f"raw {code}"} | others
    return Fault(code=code, component=component, **given)


def arrival(
    observation: Any,
    at: datetime = NOON,
    record_id: str = "r-1",
    incarnation: IncarnationMatch = IncarnationMatch.CURRENT,
    *,
    claimed: bool = False,
) -> Arrival:
    """Build the arrival of an observation at a time; `claimed` by a listed sender."""
    return Arrival(observation, at, record_id, incarnation, claimed=claimed)


def node(status: NodeStatus | None = NodeStatus.HEALTHY, **others: Any) -> NodeState:
    """Build a registered node whose state was written once."""
    given: dict[str, Any] = {
        "head": Head(version=1, sequence=1, hash="0" * 64, event_id="first"),
        "placement": Placement(group="gpu-workers", instance_type="p5.48xlarge"),
        "incarnation": Incarnation(1, 1, "i-0aaaaaaaaaaaaaaa1", None, NOON - timedelta(days=1)),
    }
    return NodeState(KEY, status=status, **(given | others))


def config(**others: Any) -> ClusterConfig:
    """Build the configuration of a cluster that Faultbridge repairs."""
    given: dict[str, Any] = {"repair_owner": RepairOwner.FAULTBRIDGE, "mode": Mode.ACT, "expected": 8}
    return ClusterConfig(KEY.cluster, **(given | others))


def rules(**others: Any) -> Rules:
    """Build the rules for a decision: policy, cluster configuration and catalog version."""
    given: dict[str, Any] = {"policy": POLICY, "config": config(), "catalog": CATALOG}
    return Rules(stack_id=STACK_ID, **(given | others))


def change_stored_head(table: Table, node: NodeKey, **changes: Any) -> None:
    """Change the head of a node's stored state, as an operator with access to the table can."""
    stored = table.get(keys.node_state(node))
    assert stored is not None
    state = unpack(dict[str, Any], stored["state"])
    changed = {**state, "head": {**state["head"], **changes}}
    table.write(Update(keys.node_state(node), set={("state",): pack(changed)}))


def folded(state: NodeState, *arrivals: Arrival, now: datetime = NOON) -> Folded:
    """Fold observations, in several steps when they change more than one commit may contain."""
    result = fold(state, arrivals, now=now, catalog=CATALOG, limits=Limits())
    while result.remaining:
        step = fold(result.state, result.remaining, now=now, catalog=CATALOG, limits=Limits())
        result = replace(step, changes=result.changes + step.changes, outcomes={**result.outcomes, **step.outcomes})
    return result


def condition(
    action: Action = Action.REPLACE_NODE, scope: Scope = Scope.DEVICE, ends_on: tuple[str, ...] = ()
) -> Condition:
    """Build an active condition of one GPU that the kernel log reported at noon."""
    severity = Severity.FATAL
    reporters = {"kernel-log xid.1": Reporter(True, NOON, severity=severity, action=action, count=1)}
    given = {"since": NOON, "last_at": NOON, "mode": "xid.1", "work": WorkEffect.DEVICE}
    return Condition("xid.1", GPU, severity, action, scope, ends_on, message="a fault", reporters=reporters, **given)


def case(repair_action: RepairAction = RepairAction.REPLACE_NODE, **others: Any) -> Case:
    """Build a queued case of the fault of `condition`, opened at noon."""
    given = {"status": CaseStatus.QUEUED, "code": "xid.1", "rule": "rule", "policy": "p"} | others
    fatal = {"component": GPU, "severity": Severity.FATAL, "action": Action.REPLACE_NODE}
    return Case(id="c-1", opened_at=NOON, repair_action=repair_action, mode=given["code"], **fatal, **given)


ESCALATED = case(status=CaseStatus.ESCALATED, code="xid.79", rule="default", policy="default@1")
