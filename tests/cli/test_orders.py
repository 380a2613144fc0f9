"""Orders of an operator, and the timeline entries that record them."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from typing import Any

import pytest

from faultbridge.decide import entry_builder
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor
from faultbridge.model.nodes import NodeState
from faultbridge.model.records import Outcome
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.pager import wire_pages
from faultbridge.serve.wiring.services import wire_case_orders, wire_cluster_status, wire_controls, wire_dispatch
from tests.builders import KEY
from tests.cli.desk import OPERATOR, Desk
from tests.cli.orders import case_for_approval
from tests.world import XID_79

NO_REPAIR = "NVRM: Xid (PCI:0000:c1:00): 92, pid=1, name=python, High single-bit ECC error rate"


def operators(desk: Desk, *arguments: str) -> list[str]:
    """The operators that the timeline names."""
    entries = desk.json("timeline", *arguments)
    return [one["data"]["operator"] for one in entries if one["data"].get("operator")]


def test_an_approved_repair_starts(desk: Desk) -> None:
    case = case_for_approval(desk)
    assert desk.json("case", "approve", case, "--reason", "seen")["waiting_for"] == "admission"
    wire_dispatch(desk.world.app).admit_cases(KEY.cluster)
    assert desk.json("case", "show", case)["status"] == "in_progress"
    assert operators(desk, "--case", case) == [OPERATOR]


def test_an_approved_case_no_longer_shows_that_it_waits_for_the_approval(desk: Desk) -> None:
    case = case_for_approval(desk)
    assert "requires approval" in desk("case", "show", case).out
    approved = desk("case", "approve", case).out
    assert "requires approval" not in approved
    assert "replace_node is approved and waits for admission" in approved


def record_capacity(desk: Desk, outcome: str, *answers: dict[str, Any]) -> None:
    """Record a step of the live case with the answers of sources of capacity."""

    def revise(state: NodeState, now: datetime) -> Transition:
        assert state.case is not None
        facts = {"capacity_sources": list(answers)}
        return Transition(state, (entry_builder.step(state.case, "capacity", outcome, now, facts=facts),))

    desk.world.app.append(KEY, revise, actor=Actor.STEP)


def test_a_shown_case_has_the_latest_answers_of_the_sources_of_capacity(desk: Desk) -> None:
    case = case_for_approval(desk)
    assert desk.json("case", "show", case)["capacity"] == []
    full = {"source": "own_reservation", "decision": "none_free", "free": 0, "reason": "cr-1: 0 of 16 instances free"}
    unknown = {"source": "on_demand", "decision": "unknown", "free": None, "reason": ""}
    record_capacity(desk, "none_left", full)
    desk.world.ports.clock.advance(timedelta(minutes=5))
    record_capacity(desk, "unproven", full, unknown)
    assert desk.json("case", "show", case)["capacity"] == [full, unknown]
    shown = desk("case", "show", case).out
    assert "own reservation: nothing free, 0 free (cr-1: 0 of 16 instances free)" in shown
    assert "on demand: unknown" in shown


def test_an_answer_for_another_repair_action_is_rejected(desk: Desk) -> None:
    case = case_for_approval(desk)
    for verb in ("approve", "deny"):
        ran = desk("case", verb, case, "--repair-action", "reboot_node")
        assert (ran.code, ran.out) == (2, "")
        assert "no approval is requested: reboot_node" in ran.err
    assert desk.json("case", "approve", case, "--repair-action", "replace_node")["approval"]["answer"] == "approved"


def test_a_denied_repair_is_escalated(desk: Desk) -> None:
    case = case_for_approval(desk)
    assert desk.json("case", "deny", case, "--reason", "needed")["status"] == "escalated"


def test_stuck_lists_what_only_a_command_moves_on_and_the_command_moves_it(desk: Desk) -> None:
    assert desk.json("stuck") == []
    case = case_for_approval(desk)
    (waiting,) = desk.json("stuck", "--cluster", KEY.cluster)
    assert (waiting["node"], waiting["case"], waiting["status"]) == (KEY.node, case, "quarantined")
    assert waiting["command"] == f"faultbridge case approve {case} --repair-action replace_node"
    desk.json("case", "deny", case, "--reason", "needed")
    (escalated,) = desk.json("stuck")
    assert escalated["reason"] == "Operator ada denied the repair (replace the node): needed."
    desk.json(*escalated["command"].split()[1:])
    assert desk.json("stuck") == []
    assert desk.json("case", "show", case)["repair_action"] == "verify"


def test_closed_cases_are_listed_with_all(desk: Desk) -> None:
    case = case_for_approval(desk)
    desk.json("node", "retire", KEY.node, "--cluster", KEY.cluster, "--yes")
    assert desk.json("case", "list") == []
    assert [one["case_id"] for one in desk.json("case", "list", "--all")] == [case]
    assert desk.json("case", "list", "--all", "--status", "queued") == []


def test_the_cases_of_all_clusters_are_listed_oldest_first(desk: Desk) -> None:
    case = case_for_approval(desk)
    desk.world.ports.clock.advance(60)
    desk.json("cluster", "add", "a-newer", "--mode", "act", "--repair-owner", "faultbridge")
    desk.json("node", "add", "--cluster", "a-newer", "--node", "n-1", "--instance-id", "i-0123456789abcde77")
    desk.json("send", "--source", "kernel-log", "--cluster", "a-newer", "--node", "n-1", given=XID_79)
    desk.run_ingest()
    listed = desk.json("case", "list")
    assert [one["cluster"] for one in listed] == [KEY.cluster, "a-newer"]
    assert listed[0]["case_id"] == case


@pytest.mark.parametrize("reason", ["two\nlines", "\x1b[2J", "x" * 257])
def test_a_reason_that_the_api_refuses_is_refused(desk: Desk, reason: str) -> None:
    case = case_for_approval(desk)
    ran = desk("case", "approve", case, "--reason", reason)
    assert (ran.code, "invalid --reason: " in ran.err) == (2, True)
    assert desk.json("case", "show", case)["waiting_for"] == "approval"


def test_a_reason_cannot_imitate_the_command_that_stuck_prints(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_for_approval(desk)
    order = OperatorOrder(OPERATOR, "needed\n    faultbridge erase train-a")
    wire_case_orders(desk.world.app).deny(case, order, None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    reason, command = desk("stuck").out.splitlines()
    assert reason.endswith(": needed     faultbridge erase train-a.")
    assert command.startswith("    faultbridge node ")


def test_an_answer_without_a_pending_approval_is_rejected(desk: Desk) -> None:
    case = case_for_approval(desk)
    desk.json("case", "deny", case)
    for verb in ("approve", "deny"):
        ran = desk("case", verb, case)
        assert (ran.code, ran.out) == (2, "")
        assert "no approval is requested" in ran.err
    assert "with a person" in desk("case", "cancel", case).err or desk("case", "cancel", case).code == 2


def test_a_canceled_case_is_verified_only(desk: Desk) -> None:
    case = case_for_approval(desk)
    assert desk.json("case", "cancel", case, "--reason", "false alarm")["repair_action"] == "verify"


def test_a_pause_and_its_end_record_the_operator(desk: Desk) -> None:
    assert desk.json("pause", "--cluster", KEY.cluster)["paused"] is True
    assert desk.json("pause", "--cluster", KEY.cluster)["paused"] is True
    assert desk.json("resume", "--cluster", KEY.cluster)["paused"] is False
    assert operators(desk, "--cluster", KEY.cluster) == [OPERATOR, OPERATOR]


def test_all_clusters_of_the_stack_are_paused_and_resumed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.json("cluster", "add", "train-b")
    monkeypatch.setenv("FAULTBRIDGE_CLUSTER", "train-b")
    paused = desk.json("pause", "--all", "--yes")
    assert {one["cluster"]: one["paused"] for one in paused} == {KEY.cluster: True, "train-b": True}
    assert desk("pause", "--all", "--yes").out.split() == [
        "CLUSTER", "PAUSED", "REPAIRS", "RUNNING", KEY.cluster, "yes", "-", "train-b", "yes", "-",
    ]  # fmt: skip
    assert {one["paused"] for one in desk.json("resume", "--all", "--yes")} == {False}


def test_a_pause_is_for_one_cluster_or_for_all(desk: Desk) -> None:
    for verb in ("pause", "resume"):
        assert "give --cluster or --all" in desk(verb).err
        assert "conflicting options" in desk(verb, "--cluster", KEY.cluster, "--all").err
    assert operators(desk, "--cluster", KEY.cluster) == []


def test_a_pause_names_the_command_that_stops_a_repair_that_has_begun(desk: Desk) -> None:
    assert "case cancel" not in desk("pause", "--cluster", KEY.cluster).err
    desk.json("resume", "--cluster", KEY.cluster)
    case = case_for_approval(desk)
    desk.json("case", "approve", case)
    wire_dispatch(desk.world.app).admit_cases(KEY.cluster)
    ran = desk("pause", "--cluster", KEY.cluster)
    assert "repairs that run and continue: 1; `faultbridge case cancel CASE` stops one before its intent" in ran.err
    assert desk("case", "cancel", case).code == 0


@pytest.mark.parametrize("close", [(), ("--close", "--yes")])
def test_a_cluster_without_tripped_breakers_lists_none(desk: Desk, close: tuple[str, ...]) -> None:
    assert desk.json("breaker", "--cluster", KEY.cluster, *close) == []


def test_orders_for_a_node_record_the_operator(desk: Desk) -> None:
    node = (KEY.node, "--cluster", KEY.cluster)
    assert desk.json("node", "quarantine", *node, "--reason", "cable")["status"] == "quarantined"
    assert desk.json("node", "return", *node)["case"]["status"] == "in_progress"
    assert desk.json("node", "replace", *node, "--yes")["status"] == "quarantined"
    assert operators(desk, "--cluster", KEY.cluster) == [OPERATOR] * 3


def test_an_order_to_replace_names_an_instance_and_is_refused_if_another_one_backs_the_node(desk: Desk) -> None:
    node = (KEY.node, "--cluster", KEY.cluster)
    instance = desk.json("node", "show", *node)["instance_id"]
    asked = desk("node", "replace", *node)
    assert f"this releases the instance: {KEY.cluster}/{KEY.node} ({instance})" in asked.err
    refused = desk("node", "replace", *node, "--instance", "i-00000000000000fff", "--yes")
    (line,) = refused.err.splitlines()
    assert (refused.code, "the instance changed since you looked" in line, instance in line) == (2, True, True)
    assert operators(desk, "--cluster", KEY.cluster) == []
    assert desk.json("node", "replace", *node, "--instance", instance, "--yes")["status"] == "quarantined"


def test_an_order_prints_the_node_after_it_and_what_happens_next(desk: Desk) -> None:
    node = (KEY.node, "--cluster", KEY.cluster)
    quarantined = desk("node", "quarantine", *node, "--reason", "bad cable")
    assert "quarantined (never verified)" in quarantined.out
    waits, place = quarantined.err.splitlines()
    assert waits == f"faultbridge: the node waits for `faultbridge node return {' '.join(node)}`"
    assert place.startswith(("faultbridge: stack faultbridge (", "faultbridge: embedded stack")), (
        "the last line names the stack that was changed"
    )
    returned = desk("node", "return", *node)
    assert "(in_progress)" in returned.out
    assert "the order is recorded; `faultbridge case watch c-" in returned.err


def test_an_order_that_a_limit_holds_prints_what_it_waits_for(desk: Desk) -> None:
    desk("pause", "--cluster", KEY.cluster)
    ran = desk("node", "replace", KEY.node, "--cluster", KEY.cluster, "--yes")
    assert "the order is recorded and waits for pause; `faultbridge case watch c-" in ran.err


def test_stuck_names_the_operators_own_quarantine(desk: Desk) -> None:
    desk.json("node", "quarantine", KEY.node, "--cluster", KEY.cluster, "--reason", "bad cable")
    (stuck,) = desk.json("stuck")
    assert (
        stuck["reason"] == "An operator keeps the node out of service: taken out of service by an operator: bad cable."
    )


def test_a_retired_node_keeps_its_timeline_and_rejects_new_records(desk: Desk) -> None:
    node = (KEY.node, "--cluster", KEY.cluster)
    wire_ingest(desk.world.app).ingest([desk.world.message()])
    retired = desk.json("node", "retire", *node, "--reason", "rack given up", "--yes")
    assert (retired["status"], retired["conditions"]) == ("retired", [])
    wire_cluster_status(desk.world.app).update(KEY.cluster)
    assert desk.json("cluster", "show", KEY.cluster)["expected"] == 0
    (case,) = desk.json("case", "list", "--cluster", KEY.cluster, "--status", "resolved")
    assert case["resolution"] == "retired"
    desk.world.ports.clock.advance(60)
    assert desk.world.outcomes(desk.world.message()) == [Outcome.RECORDED]
    assert desk.json("timeline", "--cluster", KEY.cluster)[-1]["data"]["kind"] == "late_fault"
    desk.world.ports.clock.advance(3600)
    assert desk.world.outcomes(desk.world.message()) == [Outcome.REJECTED]
    assert desk.json("node", "show", *node)["conditions"] == []
    assert desk.json("verify", "--cluster", KEY.cluster)["whole"]
    before = len(desk.json("timeline", "--cluster", KEY.cluster))
    assert desk("node", "retire", *node, "--yes").code == 0
    assert len(desk.json("timeline", "--cluster", KEY.cluster)) == before


def test_a_rejected_order_names_the_next_command(desk: Desk) -> None:
    ran = desk("node", "return", KEY.node, "--cluster", KEY.cluster)
    assert (ran.code, "faultbridge node show" in ran.err) == (2, True)


def test_the_command_line_refuses_an_approval_that_an_older_stack_stored(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_for_approval(desk)
    read = items.read_case

    def older(row):
        approval = {**row["case"]["approval"], "rung": "replace"}
        del approval["repair_action"]
        return read({**row, "case": {**row["case"], "approval": approval}})

    monkeypatch.setattr(items, "read_case", older)
    for arguments in (("case", "show", case), ("case", "list", "--cluster", KEY.cluster)):
        ran = desk(*arguments)
        assert ran.code == 69
        assert ran.err.count("\n") == 1
        assert keys.case(case).pk in ran.err
        assert "another release" in ran.err


def test_a_degraded_node_without_a_repair_says_why_and_what_would_change_it(desk: Desk) -> None:
    node = (KEY.node, "--cluster", KEY.cluster)
    assert desk.json("node", "show", *node)["answer"]["row"] == "node.healthy"
    wire_ingest(desk.world.app).ingest([desk.world.message(NO_REPAIR)])
    shown = desk("node", "show", *node).out
    assert "What happened       No fault of the node needs a repair: xid.92 (action none)." in shown
    assert f"faultbridge node replace {' '.join(node)} --instance " in shown
    (row,) = desk.json("stuck")
    assert (row["node"], row["status"], row["case"], row["command"]) == (KEY.node, "degraded", None, None)
    assert row["reason"].startswith("No fault of the node needs a repair: xid.92")
    ran = desk("stuck")
    assert f"{KEY.stream} is degraded without a repair: No fault of the node needs a repair: xid.92" in ran.err
    assert f"`faultbridge node show {KEY.node} --cluster {KEY.cluster}` shows more" in ran.err


def test_stuck_names_at_most_ten_nodes_without_a_repair(desk: Desk) -> None:
    for number in range(12):
        desk.world.register_node(f"n-{number}")
        wire_ingest(desk.world.app).ingest([desk.world.message(NO_REPAIR, node=f"n-{number}")])
    ran = desk("stuck")
    assert ran.err.count("without a repair: No fault") == 10
    assert "more nodes without a repair: 2" in ran.err
    assert len(desk.json("stuck")) == 12


def test_a_pause_shows_who_paused_why_and_until_when(desk: Desk) -> None:
    desk("pause", "--cluster", KEY.cluster, "--reason", "switch work", "--until", "2h")
    shown = desk("cluster", "show", KEY.cluster).out
    assert "by arn:aws:iam::123456789012:user/ada, until" in shown
    assert "switch work" in shown


def test_a_resume_ends_the_pause_of_another_person_only_with_force(desk: Desk) -> None:
    wire_controls(desk.world.app).pause(KEY.cluster, OperatorOrder("bob", "hot aisle"))
    refused = desk("resume", "--cluster", KEY.cluster)
    assert refused.code != 0
    assert "paused by others: bob (hot aisle); use --force" in refused.err
    assert "still paused by others: train-a" in desk("resume", "--all", "--yes").err
    desk("resume", "--cluster", KEY.cluster, "--force")
    assert desk.json("cluster", "show", KEY.cluster)["paused"] is False


def test_an_acknowledged_case_names_its_owner_and_until_when_its_page_is_not_repeated(desk: Desk) -> None:
    case = case_for_approval(desk)
    out = desk("ack", case, "--reason", "I call the vendor").out
    assert "user/ada: I call the vendor" in out
    assert "Not repeated until" in out
    assert desk.json("case", "show", case)["owner"] == OPERATOR


def test_a_silence_is_added_listed_and_ended(desk: Desk) -> None:
    assert "needs --reason" in desk("silence", "add", "--cluster", KEY.cluster, "--until", "2h").err
    (made,) = desk.json("silence", "add", "--cluster", KEY.cluster, "--until", "2h", "--reason", "RMA", "--rack", "r-*")
    assert (made["by"], made["rack"], made["scope"]) == (OPERATOR, "r-*", "rack r-*")
    assert desk.json("silence", "list") == [made]
    assert made["id"] in desk("cluster", "show", KEY.cluster).out
    assert desk.json("silence", "end", made["id"], "--cluster", KEY.cluster) == []
    assert "unknown silence" in desk("silence", "end", made["id"], "--cluster", KEY.cluster).err


def test_an_ignored_node_names_the_page_that_stays_open(desk: Desk) -> None:
    case = case_for_approval(desk)
    row = {"page_state": "triggered", "sent_at": "2026-02-03T12:00:00Z"}
    key = keys.page_notification(case, "approval")
    desk.world.ports.table.write(Put(items.item(key, desk.world.now, row)))
    assert f"`faultbridge ack {case}`" in desk("node", "ignore", KEY.node, "--cluster", KEY.cluster).err


def test_a_test_page_of_each_urgency_is_sent_resolved_and_reported(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def page() -> None:
        rows = [row for row in desk.world.ports.table.items() if "body" in row and row["node"] is None]
        for row in rows:
            wire_pages(desk.world.app).deliver(json.loads(str(row["body"])))

    monkeypatch.setattr("faultbridge.cli.stack.session.pause", page)
    sent = desk.json("test-page", "--cluster", KEY.cluster)
    assert [(one["page"], one["delivered"]) for one in sent] == [
        ("urgent triggered", True),
        ("urgent resolved", True),
        ("notice triggered", True),
        ("notice resolved", True),
    ]
    assert [one.attributes["state"] for one in desk.world.ports.pager.sent] == ["triggered", "resolved"] * 2


def test_a_test_page_that_is_not_sent_is_a_failure(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.cli.stack.session.pause", lambda: None)
    ran = desk("test-page", "--cluster", KEY.cluster, "--wait", "1")
    assert (ran.code, "not processed within 1 s" in ran.out) == (1, True)
