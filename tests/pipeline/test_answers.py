"""The table of answers: every reachable state has exactly one row, and each row can be printed and obeyed."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from functools import cache
from typing import Any

import click
import pytest

from faultbridge.cli.app import application
from faultbridge.decide.answers import Answer, answer, answer_table, case_answer, case_row, node_answer
from faultbridge.model.cases import Approval, Case, Reason
from faultbridge.model.cluster.config import Mode, RepairOwner, UpdateHold
from faultbridge.model.cluster.state import Breaker, BreakerState, Control, Pause
from faultbridge.model.enums import (
    CaseStatus,
    IncidentStatus,
    Isolation,
    NodeStatus,
    ProviderFailure,
    ProviderHealth,
    RepairAction,
    Resolution,
    SafetyKind,
    SafetyState,
    WaitingFor,
)
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.nodes import Ignored, NodeState, Placement
from faultbridge.model.values import replace
from faultbridge.serve.api.routes import ROUTES
from tests.architecture.project import ROOT
from tests.builders import GPU, KEY, NOON, after, arrival, config, fault, folded, node

ROWS = answer_table().rows
WAITING_CASE = Case(
    "c-abcdefghijklmnopqrstuvwxyz", CaseStatus.QUEUED, NOON, "xid.79", GPU, Severity.FATAL, Action.REPLACE_NODE,
    RepairAction.REPLACE_NODE, "r", "p", because=Reason("why"), not_before=after(hours=1),
)  # fmt: skip
ASKED = Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=1))
OPEN = Breaker(BreakerState.OPEN, NOON, failing=9, of=40, opened=(NOON,))
IGNORED = Ignored("ada", NOON, reason="firmware")
EXCLUSIONS = (
    None,
    IGNORED,
    replace(IGNORED, until=after(hours=1)),
    replace(IGNORED, by="label"),
    replace(IGNORED, by="label", kubernetes_node="ip-10-0-0-7"),
)
CONFIGS = tuple(
    config(mode=mode, repair_owner=owner, orchestrator=orchestrator)
    for mode in Mode
    for owner in RepairOwner
    for orchestrator in ("none", "eks")
)
CONTROLS = (
    Control(KEY.cluster),
    Control(KEY.cluster, pauses={"ada": Pause(NOON)}),
    *(
        Control(KEY.cluster, breakers={"cluster": one})
        for one in (OPEN, replace(OPEN, stays_open=True), replace(OPEN, state=BreakerState.HALF_OPEN))
    ),
)


def cases() -> Iterator[Case]:
    """Yield cases that differ in everything by which their row is chosen."""
    for status, waiting, attempts in itertools.product(CaseStatus, (None, *WaitingFor), (0, 2)):
        yield replace(WAITING_CASE, status=status, waiting_for=waiting, attempts=attempts)
    for resolution in Resolution:
        yield replace(WAITING_CASE, status=CaseStatus.RESOLVED, resolution=resolution)
    for status, failure in itertools.product((CaseStatus.ESCALATED, CaseStatus.QUEUED), ProviderFailure):
        yield replace(WAITING_CASE, status=status, attempts=1, because=Reason("why", failure))
    for status, granted, proven in itertools.product(CaseStatus, (None, True, False), (True, False)):
        approval = replace(ASKED, granted=granted, by_rule=proven, operator="ada")
        yield replace(WAITING_CASE, status=status, approval=approval, waiting_for=WaitingFor.APPROVAL)
    escalated = replace(WAITING_CASE, status=CaseStatus.ESCALATED)
    yield replace(escalated, relapse_of="c-abcdefghijklmnopqrstuvwxya")
    yield replace(escalated, code="operator.quarantine")
    yield replace(escalated, action=Action.CONTACT_SUPPORT)
    yield from (
        replace(WAITING_CASE, waiting_for=one, wait_paged=True) for one in (WaitingFor.CAPACITY, WaitingFor.IDLE)
    )
    yield replace(WAITING_CASE, status=CaseStatus.IN_PROGRESS, attempts=1, wait_paged=True)


def nodes() -> Iterator[NodeState]:
    """Yield nodes without a live case that differ in everything by which their row is chosen."""
    faults = (None, "xid.92", "xid.79", "host.silent")
    for status, isolation, code in itertools.product((None, *NodeStatus), Isolation, faults):
        state = replace(node(NodeStatus.HEALTHY), isolation=isolation)
        if code is not None:
            state = folded(state, arrival(fault(code))).state
        yield replace(state, status=status)


@cache
def answers() -> frozenset[Answer]:
    """Return the answers of all combinations of a case or node, its exclusion, its cluster and what limits repairs."""
    return frozenset(_answers())


def _answers() -> Iterator[Answer]:
    placed = node(NodeStatus.QUARANTINED)
    unplaced = replace(placed, placement=Placement())
    drained = replace(WAITING_CASE, status=CaseStatus.IN_PROGRESS, attempts=1, wait_paged=True)
    yield case_answer(node(NodeStatus.DRAINING), drained, CONFIGS[0], CONTROLS[0], NOON)
    for case, settings, control in itertools.product(cases(), CONFIGS, CONTROLS):
        yield case_answer(placed, case, settings, control, NOON)
    for case, settings, ignored in itertools.product(cases(), CONFIGS, EXCLUSIONS):
        yield case_answer(replace(unplaced, ignored=ignored), case, settings, CONTROLS[0], NOON)
        yield case_answer(node(NodeStatus.DEGRADED), case, settings, CONTROLS[0], NOON)
    updated = config(update_holds=(UpdateHold("gpu-workers", NOON, after(hours=1)),))
    for state, settings, ignored in itertools.product(nodes(), (*CONFIGS, updated), EXCLUSIONS):
        yield node_answer(replace(state, ignored=ignored), settings, CONTROLS[0], NOON)
    yield node_answer(node(NodeStatus.HEALTHY), updated, CONTROLS[0], NOON, no_data=True)


def test_every_reachable_state_of_a_case_or_node_has_a_row_and_every_row_is_reached() -> None:
    reached = {one.row for one in answers()} | {"case.unknown", "node.uncertain"}
    assert case_row({"status": "of a later version"}) == "case.unknown"
    assert {name for name in ROWS if name.startswith(("case.", "node."))} == reached


def test_an_operator_is_needed_only_where_nothing_continues_by_itself() -> None:
    blocked = {"not_permitted", "ignored", "label", "tag"}
    queued = {"approval", "unproven", "paused", "breaker_stays_open", *blocked}
    needed = {f"case.queued.{one}" for one in queued} | {f"node.isolated_{one}" for one in blocked}
    needed |= {"node.provisioning", "node.out_of_service"}
    needed |= {name for name in ROWS if name.startswith("case.escalated.")}
    shown = {name for name, row in ROWS.items() if row.needs_you and name.startswith(("case.", "node."))}
    assert shown == needed


def test_a_value_of_a_later_version_has_the_row_that_its_vocabulary_names() -> None:
    assert case_row({"status": "resolved", "resolution": "melted"}) == "case.resolved.by_operator"
    assert case_row({"status": "queued", "waiting_for": "godot"}) == "case.queued.wait"
    assert case_row({"status": "escalated", "failure": "NOVEL"}) == "case.escalated.other"


SAFETY = {
    SafetyKind.BREAKER: {SafetyState.OPEN, SafetyState.HALF_OPEN, SafetyState.CLOSED},
    SafetyKind.BUDGET: {SafetyState.USED_UP, SafetyState.AVAILABLE},
    SafetyKind.PAUSE: {SafetyState.PAUSED, SafetyState.RUNNING},
    SafetyKind.HOLD: {SafetyState.HELD, SafetyState.RELEASED},
    SafetyKind.CLAIMS: {SafetyState.DAMPED, SafetyState.ACCEPTED},
    SafetyKind.EVICTIONS: {SafetyState.USED_UP, SafetyState.AVAILABLE},
}


def test_every_state_of_a_cluster_has_a_row() -> None:
    expected = {f"{kind}.{state}" for kind in SafetyKind for state in SAFETY[kind]}
    expected |= {f"incident.{status}" for status in IncidentStatus} | {f"provider.{one}" for one in ProviderHealth}
    expected |= {"incident.origin", "breaker.stays_open", "intake.failed", "intake.working", "intake.rejects"}
    expected |= {"intake.unseen", "isolation.overdue", "isolation.over", "recurrence.begun", "test.page"}
    assert {name for name in ROWS if not name.startswith(("case.", "node."))} == expected


def test_only_a_row_that_an_operator_must_obey_or_may_use_has_commands_and_each_such_row_has_one() -> None:
    for one in answers():
        assert not one.needs_you or one.commands, one.row


@pytest.mark.parametrize("failure", ProviderFailure)
def test_a_replacement_comes_first_only_after_a_failed_verification(failure: ProviderFailure) -> None:
    case = replace(WAITING_CASE, status=CaseStatus.ESCALATED, attempts=1, because=Reason("why", failure))
    found = case_answer(node(NodeStatus.FAILED), case, config(), CONTROLS[0], NOON)
    first = "replace" if failure is ProviderFailure.VERIFY_FAILED else "return"
    assert found.row == f"case.escalated.{failure.value.lower()}"
    assert found.commands[0].startswith(f"faultbridge node {first} ")
    assert {shlex.split(command)[2] for command in found.commands} == {"replace", "return"}


def test_a_command_names_the_instance_only_if_it_is_known() -> None:
    fields = {"node": "n-1", "cluster": "a", "reason": "why"}
    name = "case.escalated.verify_failed"
    assert answer(name, fields).commands[0] == "faultbridge node replace n-1 --cluster a"
    assert answer(name, fields | {"instance_id": "i-1"}).commands[0].endswith("--cluster a --instance i-1")
    assert answer(name, {"cluster": "a"}).commands == ()


def test_a_case_between_two_attempts_states_the_failure_and_the_next_attempt() -> None:
    failed = Reason("pcie: fail; replace_node is tried again", ProviderFailure.VERIFY_FAILED)
    case = replace(WAITING_CASE, waiting_for=WaitingFor.WAIT, attempts=1, because=failed)
    found = case_answer(node(NodeStatus.QUARANTINED), case, config(), CONTROLS[0], NOON)
    assert found.what == "Attempt 1 failed: verification failed: pcie: fail; node replacement is tried again."
    assert "next attempt at 2026-02-03 13:00 UTC" in found.system
    again = replace(case, waiting_for=WaitingFor.ADMISSION, because=Reason("a stronger action is needed: replace_node"))
    assert case_answer(node(NodeStatus.QUARANTINED), again, config(), CONTROLS[0], NOON).row == "case.queued.again"


def _templates() -> Iterator[str]:
    table = answer_table()
    steps = (*table.before, *table.after, *(step for row in ROWS.values() for step in row.you))
    return (step.command for step in steps if step.command)


def test_every_command_of_the_table_is_one_of_the_command_line() -> None:
    for template in sorted(set(_templates())):
        words = shlex.split(template)
        if words[0] != "faultbridge":
            assert words[0] in {"kubectl", "aws"}
            continue
        root = application()
        command: Any = root.get_command(click.Context(root), words[1])
        rest = words[2:]
        while hasattr(command, "commands"):
            command, rest = command.commands[rest[0]], rest[1:]
        options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        assert {word for word in rest if word.startswith("--")} <= options, template


def test_every_order_of_the_table_is_an_operation_of_the_api_that_changes_something() -> None:
    orders = {step.order for row in ROWS.values() for step in row.you if step.order}
    assert orders
    assert orders <= {route.name for route in ROUTES if route.method == "POST"}


def test_every_row_names_a_runbook() -> None:
    for row in ROWS.values():
        assert (ROOT / "docs" / "runbooks" / f"{row.runbook}.md").is_file(), row


def test_no_answer_shows_a_placeholder_or_a_raw_name() -> None:
    raw = re.compile(r"[{}]|\b(replace_node|not_applicable|VERIFY_FAILED|dry_run|in_progress)\b")
    for one in answers():
        text = " ".join((one.what, one.system, *(step.do for step in one.you)))
        assert raw.search(text) is None, text
