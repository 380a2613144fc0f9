"""Silences and acknowledgements at the pager: what is held, what is sent when it ends, and what is not repeated."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta

import pytest

from faultbridge.model.cases import Approval
from faultbridge.model.cluster.config import DeclaredDomain
from faultbridge.model.cluster.silences import Silence
from faultbridge.model.enums import CaseStatus, DomainKind, RepairAction
from faultbridge.model.nodes import NodeKey
from faultbridge.model.times import EPOCH
from faultbridge.record.ports.messaging import PageFormat
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.pager import wire_pages, wire_reminders
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.pager.deliver import buttons_of
from faultbridge.serve.pager.page import Location
from faultbridge.serve.wiring.services import wire_case_orders, wire_controls, wire_node_orders, wire_registration
from tests.builders import NOON, case
from tests.sim.fakes import FakePager
from tests.world import World

CLUSTER = "train-a"
RACK = tuple(f"gpu-{number:02}" for number in range(1, 9))
ADA = OperatorOrder("ada", "RMA 123")
NEEDS_A_PERSON = (
    '{"kind": "fault", "code": "xid.48", "severity": "fatal", "action": "contact_support", '
    '"component": {"type": "gpu", "pci": "0000:c1:00"}, "message": "double-bit error"}'
)
LINK_DOWN = '{"kind": "fault", "code": "net.link_down", "component": {"type": "nic", "name": "ib0"}, "message": "down"}'


class Desk:
    """An installation whose entries reach the pager, and which reminds each minute."""

    def __init__(self, *nodes: str, settings: Mapping[str, str] | None = None) -> None:
        self.world = World(nodes=nodes or ("n-1", "n-2"), settings=settings)
        self.controls = wire_controls(self.world.app)

    @property
    def pager(self) -> FakePager:
        return self.world.ports.pager

    def subjects(self) -> list[str]:
        return [page.subject for page in self.pager.sent]

    def report(self, *nodes: str, body: str = LINK_DOWN) -> None:
        """Report a fault of nodes, and page for its entries."""
        messages = [self.world.message(body, source="faultbridge", node=name) for name in nodes]
        wire_ingest(self.world.app).ingest(messages)
        wire_react(self.world.app).run([(CLUSTER, name) for name in nodes])
        self.page()

    def page(self) -> None:
        rows = [row for row in self.world.ports.table.items() if "body" in row and "event_id" in row]
        for row in sorted(rows, key=lambda row: (str(row["recorded_at"]), int(str(row["sequence"])))):
            wire_pages(self.world.app).deliver(json.loads(str(row["body"])))

    def wait(self, **time: int) -> None:
        self.world.ports.clock.advance(timedelta(**time))
        wire_sweep(self.world.app).run()
        self.page()
        wire_reminders(self.world.app).remind()

    def escalate(self, node: str) -> str:
        """Let the case of a node need an operator, and page; returns the id of the case."""
        self.report(node, body=NEEDS_A_PERSON)
        self.wait(minutes=2)
        case = self.world.node(NodeKey(CLUSTER, node)).live_case
        assert case is not None
        return case.id

    def silence(self, hours: int = 2, **matchers: str) -> Silence:
        now = self.world.now
        wanted = Silence(id="", by="", reason="", since=EPOCH, until=now + timedelta(hours=hours), **matchers)
        return self.controls.silence(CLUSTER, ADA, wanted)


@pytest.mark.parametrize("matchers", [{}, {"node": "n-*"}, {"group": "gpu-workers"}, {"mode": "gpu.*"}])
def test_a_matching_page_is_held_and_one_line_counts_it_when_the_silence_ends(matchers: dict[str, str]) -> None:
    desk = Desk()
    silence = desk.silence(**matchers)
    desk.escalate("n-1")
    assert desk.subjects() == []
    desk.wait(hours=2)
    line, late = [page for page in desk.pager.sent if "silence" in page.key or "escalated" in page.key]
    assert line.key == f"{CLUSTER}:silence:{silence.id}"
    assert "held, 1 still open" in line.subject
    assert "silenced by ada: RMA 123" in line.bodies["email"]
    assert "sent after the end of a silence" in late.bodies["email"]
    count = len(desk.pager.sent)
    desk.wait(minutes=1)
    assert len(desk.pager.sent) == count


@pytest.mark.parametrize("matchers", [{"node": "n-2"}, {"group": "other"}, {"mode": "nic.*"}, {"rack": "r-1"}])
def test_a_page_that_does_not_match_is_sent(matchers: dict[str, str]) -> None:
    desk = Desk()
    desk.silence(**matchers)
    desk.escalate("n-1")
    assert any("train-a/n-1" in one for one in desk.subjects())


def test_a_silence_that_begins_later_holds_nothing_before() -> None:
    desk = Desk()
    now = desk.world.now
    times = {"since": now + timedelta(hours=1), "until": now + timedelta(hours=2)}
    desk.controls.silence(CLUSTER, ADA, Silence(id="", by="", reason="", **times))
    desk.escalate("n-1")
    assert desk.subjects()


def test_a_page_that_is_resolved_during_the_silence_is_only_counted() -> None:
    desk = Desk()
    desk.silence()
    case_id = desk.escalate("n-1")
    wire_node_orders(desk.world.app).return_node(NodeKey(CLUSTER, "n-1"), ADA)
    desk.page()
    desk.wait(hours=2)
    assert not [page for page in desk.pager.sent if page.key == f"{case_id}:escalated"]
    assert any("held, 0 still open" in one for one in desk.subjects())


def test_a_second_silence_keeps_what_the_first_one_held() -> None:
    desk = Desk()
    first = desk.silence()
    case_id = desk.escalate("n-1")
    desk.silence(hours=9)
    desk.controls.end_silence(CLUSTER, first.id, ADA)
    desk.wait(minutes=1)
    assert not [page for page in desk.pager.sent if page.key == f"{case_id}:escalated"]


def test_a_reminder_honors_a_silence_that_began_after_its_page() -> None:
    desk = Desk()
    case_id = desk.escalate("n-1")
    desk.silence(hours=12, node="n-1")
    desk.wait(hours=5)
    assert len([page for page in desk.pager.sent if page.key == f"{case_id}:escalated"]) == 1


def test_an_acknowledged_case_is_not_repeated_for_the_time_of_the_policy() -> None:
    desk = Desk()
    case_id = desk.escalate("n-1")
    wire_case_orders(desk.world.app).acknowledge(case_id, ADA)
    for _ in range(7):
        desk.wait(hours=1)
    about = [page.attributes["state"] for page in desk.pager.sent if page.key == f"{case_id}:escalated"]
    assert about == ["triggered", "acknowledged"]
    desk.wait(hours=2)
    assert desk.pager.sent[-1].key == f"{case_id}:escalated"
    assert "Reminder 1" in desk.pager.sent[-1].bodies["email"]


def test_an_incident_that_outgrows_the_silenced_nodes_is_paged() -> None:
    desk = Desk(*RACK, *(f"other-{number}" for number in range(24)))
    rack = DeclaredDomain(DomainKind.RACK, "r-7", "gpu-[01-08]")
    wire_registration(desk.world.app).set_cluster(CLUSTER, {"domains": (rack,)})
    desk.silence(node="gpu-0[1-6]")
    desk.report(*RACK[:6])
    desk.wait(minutes=1)
    assert not [one for one in desk.subjects() if "incident" in one]
    desk.report(*RACK[6:])
    desk.wait(minutes=1)
    (page,) = [page for page in desk.pager.sent if ":incident:" in page.key and page.urgency == "urgent"]
    assert "the incident is larger than what is silenced" in page.bodies["email"]


def test_an_incident_inside_a_silenced_rack_is_held() -> None:
    desk = Desk(*RACK, *(f"other-{number}" for number in range(24)))
    rack = DeclaredDomain(DomainKind.RACK, "r-7", "gpu-[01-08]")
    wire_registration(desk.world.app).set_cluster(CLUSTER, {"domains": (rack,)})
    desk.silence(rack="r-7")
    desk.report(*RACK)
    desk.wait(minutes=1)
    assert desk.subjects() == []


def test_pages_in_slack_have_buttons_only_if_people_are_configured() -> None:
    desk = Desk(settings={"FAULTBRIDGE_ON_CALL": "people"})
    case_id = desk.escalate("n-1")
    (page,) = [page for page in desk.pager.sent if page.key == f"{case_id}:escalated"]
    actions = json.loads(page.forms[PageFormat.SLACK].body)["blocks"][-1]
    assert [one["action_id"] for one in actions["elements"]] == ["ack"]
    assert json.loads(actions["elements"][0]["value"]) == {"cluster": CLUSTER, "case": case_id}
    assert "buttons" not in json.loads(page.bodies["https"])
    other = Desk()
    case_id = other.escalate("n-1")
    (page,) = [page for page in other.pager.sent if page.key == f"{case_id}:escalated"]
    assert "action_id" not in page.forms[PageFormat.SLACK].body


def test_the_page_of_an_approval_request_has_buttons_that_name_the_request() -> None:
    asked = Approval(2, RepairAction.REPLACE_NODE, NOON, NOON)
    waiting = case(status=CaseStatus.QUEUED, approval=asked)
    place = Location(CLUSTER, "n-1")
    buttons = buttons_of(place, "approval", waiting)
    assert [one.order for one in buttons] == ["ack", "approve", "deny"]
    assert json.loads(buttons[1].value)["attempt"] == 2
    assert "replace_node of train-a/n-1" in buttons[2].confirm
    assert [one.order for one in buttons_of(place, "escalated", waiting)] == ["ack"]


def test_the_recipients_of_a_page_learn_once_who_took_its_case_over() -> None:
    desk = Desk()
    case_id = desk.escalate("n-1")
    wire_case_orders(desk.world.app).acknowledge(case_id, ADA)
    for _ in range(2):
        desk.page()
    (sent,) = [page for page in desk.pager.sent if page.attributes["state"] == "acknowledged"]
    assert "Acknowledged by ada until 2026-02-03T20:02Z: RMA 123." in sent.bodies["email"]
    assert sent.subject.startswith("[acknowledged] train-a/n-1")
    event = json.loads(sent.forms[PageFormat.PAGERDUTY].body)
    assert (event["event_action"], event["dedup_key"]) == ("acknowledge", f"{case_id}:escalated")
    assert json.loads(sent.forms[PageFormat.ALARM].body)["NewStateValue"] == "ALARM"
