"""Missing heartbeats: one silent node is a fault, many are an incident, and a failed intake is no fault of any node."""

from __future__ import annotations

import json
from datetime import timedelta

from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.enums import CaseStatus, WaitingFor
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage import incidents as stored_incidents
from faultbridge.model.storage import keys
from faultbridge.model.times import to_text
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.wiring.services import wire_controls, wire_incident_orders
from tests.builders import KEY
from tests.ingest.heartbeat_monitor import record_canary
from tests.world import World

SILENT = "host.silent@node"


class HeartbeatWorld(World):
    """An installation whose nodes send heartbeats each minute; some of them stop."""

    def __init__(self, nodes: int) -> None:
        self.names = tuple(f"n-{number:02}" for number in range(nodes))
        super().__init__(nodes=self.names, expected=nodes)

    def beat(self, *nodes: str) -> None:
        body = json.dumps({"heartbeat": 1, "at": to_text(self.now)})
        wire_ingest(self.app).ingest([self.message(body, source="heartbeat", node=node) for node in nodes])

    def pass_minutes(self, minutes: int, *alive: str) -> None:
        for _ in range(minutes):
            self.ports.clock.advance(timedelta(minutes=1))
            if alive:
                self.beat(*alive)
            assert wire_sweep(self.app).run().failures == []

    def silent(self) -> set[str]:
        return {name for name in self.names if SILENT in self.node(NodeKey(KEY.cluster, name)).conditions}

    def incidents(self) -> list[Incident]:
        rows = self.ports.table.query(keys.cluster_partition(KEY.cluster), prefix=stored_incidents.INCIDENT).items
        return [stored_incidents.read_incident(row) for row in rows]

    def waits_for_incident(self, node: str) -> bool:
        """Return whether the live case of a node waits for an incident."""
        case = self.node(NodeKey(KEY.cluster, node)).live_case
        assert case is not None
        return case.waiting_for == WaitingFor.INCIDENT

    def cases(self) -> set[CaseStatus]:
        found = (self.node(NodeKey(KEY.cluster, name)).live_case for name in self.names)
        return {case.status for case in found if case}


def test_one_silent_node_is_a_fault_of_that_node():
    world = HeartbeatWorld(10)
    world.beat(*world.names)
    world.pass_minutes(10, *world.names[1:])
    assert world.silent() == {"n-00"}
    assert world.incidents() == []


def test_more_than_half_of_the_nodes_silent_is_one_incident_that_shows_and_holds_their_repairs():
    world = HeartbeatWorld(10)
    world.beat(*world.names)
    world.pass_minutes(60, *world.names[6:])
    assert world.silent() == set(world.names[:6])
    (incident,) = world.incidents()
    assert (incident.family, incident.nodes) == ("heartbeat", world.names[:6])
    assert incident.domain.text == "cluster train-a"
    assert world.cases() == {CaseStatus.ABSORBED}
    assert world.ports.providers["ec2-auto-scaling"].replaced == []
    world.pass_minutes(15, *world.names)
    assert world.silent() == set()
    assert world.incidents()[0].status == "closed"


def test_a_failed_intake_is_its_own_incident_without_a_fault_and_without_a_repair_of_any_node():
    world = HeartbeatWorld(10)
    record_canary(world)
    world.beat(*world.names)
    world.pass_minutes(5, *world.names)
    world.outcomes(world.message(node="n-03"))
    world.pass_minutes(60)
    assert world.silent() == set()
    (incident,) = world.incidents()
    assert (incident.domain.kind, incident.status) == ("intake", "open")
    assert wire_controls(world.app).read(KEY.cluster).incident_of("n-00", (), ()) == incident.id
    for _ in range(5):
        record_canary(world)
        world.pass_minutes(4, *world.names)
    assert world.incidents()[0].status == "closed"
    assert wire_controls(world.app).read(KEY.cluster).incident_of("n-00", (), ()) is None


def test_a_failed_intake_holds_repairs_until_the_maximum_age_and_no_second_incident_follows():
    world = HeartbeatWorld(4)
    record_canary(world)
    world.ports.clock.advance(timedelta(minutes=4))
    world.beat(*world.names)
    world.outcomes(world.message(node="n-03"))
    world.pass_minutes(100)
    assert world.waits_for_incident("n-03")
    world.pass_minutes(300)
    (incident,) = world.incidents()
    assert (incident.domain.kind, incident.status) == ("intake", "expired")
    assert not world.waits_for_incident("n-03")


def test_without_a_canary_so_far_missing_heartbeats_are_an_incident_with_a_maximum_age():
    world = HeartbeatWorld(4)
    world.beat(*world.names)
    world.pass_minutes(200)
    (incident,) = world.incidents()
    assert (incident.domain.text, incident.status) == ("cluster train-a", "expired")


def test_a_failed_intake_admits_no_repair_that_was_already_waiting():
    world = HeartbeatWorld(10)
    record_canary(world)
    world.beat(*world.names)
    wire_controls(world.app).pause(KEY.cluster)
    world.outcomes(world.message(node="n-03"))
    world.pass_minutes(15)
    wire_controls(world.app).resume(KEY.cluster, force=True)
    world.pass_minutes(30)
    case = world.node(NodeKey(KEY.cluster, "n-03")).live_case
    assert case is not None
    assert (case.status, case.waiting_for) == (CaseStatus.QUEUED, "incident")
    assert world.ports.providers["ec2-auto-scaling"].replaced == []


def test_nodes_that_were_reported_before_the_canary_was_missed_wait_until_the_maximum_age_too():
    world = HeartbeatWorld(10)
    world.beat(*world.names)
    world.ports.clock.advance(timedelta(minutes=6))
    record_canary(world)
    world.pass_minutes(4)
    assert world.silent() == set(world.names)
    world.pass_minutes(100)
    (incident,) = world.incidents()
    assert (incident.domain.kind, incident.status) == ("intake", "open")
    assert world.cases() == {CaseStatus.ABSORBED}
    world.pass_minutes(100)
    assert world.incidents()[0].status == "expired"
    assert CaseStatus.ABSORBED not in world.cases()


def test_a_missing_canary_alone_holds_no_repair_while_heartbeats_arrive():
    world = HeartbeatWorld(10)
    record_canary(world)
    world.beat(*world.names)
    world.pass_minutes(30, *world.names)
    world.outcomes(world.message(node="n-03"))
    world.pass_minutes(30, *world.names)
    assert world.incidents() == []
    assert not world.waits_for_incident("n-03")


def test_a_silent_node_is_reported_while_only_the_canary_is_missing():
    world = HeartbeatWorld(10)
    record_canary(world)
    world.beat(*world.names)
    world.pass_minutes(30, *world.names[1:])
    assert world.silent() == {"n-00"}
    assert world.incidents() == []


def test_an_operator_who_closes_a_failed_intake_ends_it_until_records_arrive_and_fail_again():
    world = HeartbeatWorld(10)
    record_canary(world)
    world.beat(*world.names)
    world.pass_minutes(15)
    world.outcomes(world.message(node="n-03"))
    (incident,) = world.incidents()
    wire_incident_orders(world.app).close(KEY.cluster, incident.id, OperatorOrder("ada"))
    world.pass_minutes(300)
    assert [one.status for one in world.incidents()] == ["closed"]
    assert not world.waits_for_incident("n-03")
    record_canary(world)
    world.beat(*world.names)
    world.pass_minutes(5, *world.names)
    assert [one.status for one in world.incidents()] == ["closed"]
    world.pass_minutes(30)
    assert sorted(one.status for one in world.incidents()) == ["closed", "open"]


def test_a_batch_of_entries_does_not_end_the_incident_of_a_failed_intake():
    world = HeartbeatWorld(10)
    record_canary(world)
    world.beat(*world.names)
    world.pass_minutes(15)
    before = world.incidents()
    wire_react(world.app).run([(KEY.cluster, "n-03")])
    world.ports.clock.advance(timedelta(minutes=30))
    wire_react(world.app).run([(KEY.cluster, "n-03")])
    assert world.incidents() == before


def test_a_node_that_was_silent_before_the_intake_failed_is_reported_only_after_records_arrive_again():
    world = HeartbeatWorld(10)
    world.beat(*world.names)
    world.ports.clock.advance(timedelta(minutes=4))
    world.beat(*world.names[1:])
    record_canary(world)
    world.ports.clock.advance(timedelta(minutes=8))
    world.pass_minutes(1)
    assert world.silent() == set()
    record_canary(world)
    world.pass_minutes(2, *world.names[1:])
    assert world.silent() == {"n-00"}
