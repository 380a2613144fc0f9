"""Sender identity: a record from a sender that may not report for its node is rejected and changes nothing."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from faultbridge.decide.fold.daily_notes import MAX_PER_DAY, UNREGISTERED
from faultbridge.decide.normalize.trust import EVENT_BUS
from faultbridge.model.errors import Rejected
from faultbridge.model.records import Outcome
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import encode_message
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints import ingest as entrypoint
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.ingest import record_reader
from faultbridge.serve.ingest.canary import CLUSTER, LAST_RECORDED, last_sent_at
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.services import wire_registration, wire_rejects
from tests.builders import KEY
from tests.ingest.builders import SENDER_PROOF, SWEEP
from tests.world import XID_79, World


@pytest.fixture
def world():
    return World(nodes=(KEY.node, "neighbor"), settings=SENDER_PROOF)


def instance(world, node=KEY.node) -> str:
    return _state(world, node).incarnation.instance_id


def _state(world, node):
    key = KEY._replace(node=node)
    return items.read_state(key, world.ports.table.get(keys.node_state(key)))


def by(delivery: Delivery, sender: str | None) -> Delivery:
    return replace(delivery, sender=sender)


def node_role(world, node=KEY.node) -> str:
    return f"AROANODE:{instance(world, node)}"


def event(detail_type: str, source: str, detail: dict, event_id: str = "6c1f0a5e-0000-4a4a-9d11-000000000002") -> str:
    return json.dumps(
        {
            "version": "0",
            "id": event_id,
            "detail-type": detail_type,
            "source": source,
            "account": "111122223333",
            "time": "2026-02-03T11:59:58Z",
            "region": "us-west-2",
            "resources": [],
            "detail": detail,
        }
    )


def state_change(instance_id: str, state: str = "shutting-down") -> str:
    return event("EC2 Instance State-change Notification", "aws.ec2", {"instance-id": instance_id, "state": state})


def from_bus(world, text: str) -> Delivery:
    return Delivery("message-bus", text, world.now, sender=EVENT_BUS)


def test_a_node_may_report_itself_under_any_of_its_names(world):
    assert world.outcomes(by(world.message(XID_79), node_role(world))) == [Outcome.RECORDED]
    nameless = by(world.message(XID_79, node=None), node_role(world, "neighbor"))
    assert world.outcomes(nameless) == [Outcome.RECORDED]
    assert _state(world, "neighbor").conditions


def test_a_forged_record_for_another_node_is_rejected_and_changes_nothing(world):
    before = _state(world, KEY.node)
    forged = by(world.message(XID_79), node_role(world, "neighbor"))
    ingested = wire_ingest(world.app).ingest([forged])
    assert list(ingested.reasons.values()) == ["untrusted"]
    assert _state(world, KEY.node) == before
    (reject,) = wire_rejects(world.app).list(KEY.cluster)
    assert (reject.reason, reject.sender) == ("untrusted", forged.sender)


def test_forged_records_of_one_sender_are_stored_up_to_a_limit(world):
    for number in range(130):
        message = world.message(XID_79, node=f"n-{number}", instance_id=f"i-0{number:07x}")
        wire_ingest(world.app).ingest([by(message, node_role(world))])
    assert len(list(wire_rejects(world.app).list(KEY.cluster))) == 100
    assert wire_rejects(world.app).dropped(KEY.cluster) == 30


def test_a_collector_may_report_for_a_cluster_after_it_is_listed(world):
    message = by(world.message(XID_79), "AROACOLLECTOR:prometheus")
    assert world.outcomes(message) == [Outcome.REJECTED]
    wire_registration(world.app).set_cluster(KEY.cluster, {"trusted_senders": ("AROACOLLECTOR:*",)})
    world.ports.clock.advance(timedelta(minutes=1))
    assert world.outcomes(replace(message, id="again")) == [Outcome.RECORDED]


def test_a_reject_sent_again_by_the_sweep_keeps_its_first_sender(world):
    early = by(world.message(XID_79, node="late", instance_id="i-0ccccccccccccccc3"), "AROANODE:i-0ccccccccccccccc3")
    assert list(wire_ingest(world.app).ingest([early]).reasons.values()) == ["unknown_node"]
    for _ in range(2):
        (reject,) = wire_rejects(world.app).list(KEY.cluster)
        wire_rejects(world.app).retry(reject)
        (received,) = world.ports.queue.receive()
        world.ports.queue.delete(received)
        assert decode_message(received.body).sender == early.sender
        world.outcomes(Delivery("again", received.body, world.now, sender=SWEEP))
    (reject,) = wire_rejects(world.app).list(KEY.cluster)
    assert (reject.reason, reject.sender) == ("unknown_node", early.sender)


def test_an_ec2_event_finds_its_node_and_cluster_by_the_instance(world):
    assert world.outcomes(from_bus(world, state_change(instance(world)))) == [Outcome.RECORDED]
    assert _state(world, KEY.node).conditions
    assert not _state(world, "neighbor").conditions


def test_an_ec2_event_of_an_unregistered_instance_is_ignored(world):
    assert world.outcomes(from_bus(world, state_change("i-0fffffffffffffff9"))) == [Outcome.CLEAN]
    assert not list(wire_rejects(world.app).list("-"))


def test_an_aws_health_event_of_an_unregistered_instance_is_retried(world):
    entity = {"entityValue": "i-0fffffffffffffff9", "status": "IMPAIRED"}
    detail = {"eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "affectedEntities": [entity]}
    ingested = wire_ingest(world.app).ingest([from_bus(world, event("AWS Health Event", "aws.health", detail))])
    assert list(ingested.reasons.values()) == ["unknown_node"]
    (reject,) = wire_rejects(world.app).list("-")
    assert reject.due_at is not None
    wire_rejects(world.app).retry(reject)
    (received,) = world.ports.queue.receive()
    again = decode_message(received.body)
    assert (again.cluster, again.source, again.sender) == ("-", "health-event", EVENT_BUS)


def test_four_reports_under_different_names_are_one_node_with_one_case(world):
    hyperpod = {
        "ClusterName": "hyperpod-name-of-it",
        "InstanceId": instance(world),
        "HealthSummary": {"HealthStatus": "Unhealthy", "HealthStatusReason": None, "RepairAction": "Replace"},
    }
    reports = [
        by(world.message(XID_79), node_role(world)),
        by(world.message(XID_79, node=instance(world)), node_role(world)),
        from_bus(world, state_change(instance(world))),
        from_bus(
            world, event("SageMaker HyperPod Cluster Node Health Event", "aws.sagemaker", hyperpod, event_id="e-2")
        ),
    ]
    wire_ingest(world.app).ingest(reports)
    assert _state(world, KEY.node).live_case is not None
    assert len(list(wire_rejects(world.app).list(KEY.cluster))) == 0
    assert len([item for item in world.ports.table.items() if item["sk"] == "CASE"]) == 1


def test_a_lifecycle_event_of_hyperpod_is_not_rejected(world):
    detail = {"EventDetails": {"EventId": "x", "ResourceType": "Instance", "EventLevel": "Info", "Description": "made"}}
    noise = event("SageMaker HyperPod Cluster Event", "aws.sagemaker", detail)
    assert world.outcomes(from_bus(world, noise)) == [Outcome.CLEAN]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (event("AWS API Call via CloudTrail", "aws.sagemaker", {}), "unknown_source"),
        (event("Anything", "my.application", {}), "unknown_source"),
        (event("x", "aws.ec2", {}).replace("2026-02-03T11:59:58Z", "noon"), "bad_time"),
        (event("x", "aws.ec2", {}, event_id=""), "bad_record_id"),
    ],
)
def test_an_event_that_no_rule_selects_is_rejected_with_its_reason(world, text, reason):
    assert list(wire_ingest(world.app).ingest([from_bus(world, text)]).reasons.values()) == [reason]


def test_an_event_that_a_node_puts_on_the_raw_queue_changes_no_other_node(world):
    forged = Delivery("message-x", state_change(instance(world, "neighbor")), world.now, sender=node_role(world))
    wire_ingest(world.app).ingest([forged])
    assert not _state(world, "neighbor").conditions


def test_only_messages_of_the_events_queue_come_from_the_event_bus(world, capsys):
    def delivered(arn: str) -> dict:
        attributes = {"SentTimestamp": "1770120000000", "SenderId": node_role(world), "ApproximateReceiveCount": "1"}
        return {"messageId": arn, "body": state_change(instance(world, "neighbor")), "attributes": attributes} | {
            "eventSourceARN": arn
        }

    entrypoint.ingest({"Records": [delivered("arn:raw")]}, world.app)
    assert not _state(world, "neighbor").conditions
    entrypoint.ingest({"Records": [delivered("arn:events")]}, world.app)
    assert _state(world, "neighbor").conditions
    assert '"RecordsUntrusted"' in capsys.readouterr().out


def faults(first: int, count: int = 60) -> str:
    """Return a record with faults that have different codes."""
    component = {"type": "gpu", "pci": "0000:c1:00"}
    documents = (
        {"kind": "fault", "code": f"agent.z{number}", "component": component, "message": "forged"}
        for number in range(first, first + count)
    )
    return "\n".join(map(json.dumps, documents))


def test_an_unregistered_instance_adds_few_notes_to_the_record_of_another_node_and_each_names_it(world):
    stranger = "AROAX:i-0123456789abcdef0"
    before = _state(world, KEY.node)
    for number in range(5):
        world.outcomes(by(world.message(faults(100 * number), source="faultbridge"), stranger))
    after = _state(world, KEY.node)
    assert after.head.sequence - before.head.sequence == MAX_PER_DAY[UNREGISTERED] + 1
    assert (after.status, after.conditions) == (before.status, before.conditions)
    rows = world.ports.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items[-7:]
    notes = [json.loads(row["body"])["data"] for row in rows]
    assert {note["facts"]["sender"] for note in notes} == {stranger}


def test_counters_of_another_instance_are_not_compared_with_those_of_the_node(world):
    def gauge(xid: int) -> str:
        return f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="GPU-1",pci_bus_id="00000000:C1:00.0"}} {xid}\n'

    for xid, sender in ((79, node_role(world)), (0, "AROAX:i-0123456789abcdef0"), (79, node_role(world))):
        world.outcomes(by(world.message(gauge(xid), source="dcgm-metrics"), sender))
        world.ports.clock.advance(timedelta(minutes=6))
    assert not _state(world, KEY.node).conditions


@pytest.mark.parametrize("sender", ["AROANODE:i-0123456789abcdef0", "AIDAUSER", None])
def test_the_sender_is_checked_before_the_body_is_fetched_masked_or_decoded(world, sender, monkeypatch):
    def unused(*_: object) -> None:
        pytest.fail("the body of a record from an untrusted sender was used")

    monkeypatch.setattr(record_reader, "mask", unused)
    reader = replace(wire_ingest(world.app).reader, objects=None, decode=unused)
    stored = f"raw/{KEY.cluster}/2026-02-03/{'0' * 64}"
    for others in ({}, {"body": None, "pointer": stored}):
        message = replace(decode_message(world.message(XID_79).text), instance_id=instance(world), **others)
        with pytest.raises(Rejected, match="untrusted"):
            reader.read(Delivery("m-1", encode_message(message), world.now, sender=sender))


def test_what_a_record_states_does_not_add_to_the_rejects_that_its_sender_may_cause(world):
    for number in range(130):
        unknown = world.message(XID_79, cluster=f"none-{number}", node=f"n-{number}", instance_id=instance(world))
        wire_ingest(world.app).ingest([by(unknown, node_role(world))])
        strange = world.message(XID_79, source=f"strange-{number}", instance_id=instance(world))
        wire_ingest(world.app).ingest([by(strange, node_role(world))])
    rejects = [row for row in world.ports.table.items() if "reject" in row]
    assert len(rejects) == 200
    assert sum("gsi4pk" in row for row in rejects) == 100
    assert wire_rejects(world.app).dropped("-") == 60


def test_rejects_of_one_node_never_delay_the_timers_of_another(world):
    for number in range(100):
        unknown = world.message(XID_79, cluster="none", node=f"n-{number}", instance_id=instance(world))
        wire_ingest(world.app).ingest([by(unknown, node_role(world))])
    wire_ingest(world.app).ingest(
        [by(world.message(XID_79.replace(": 79,", ": 92,"), instance_id=instance(world)), node_role(world))]
    )
    world.ports.clock.advance(timedelta(hours=25))

    def slow(call):
        world.ports.clock.advance(timedelta(seconds=1) if call.name == "queue.send" else timedelta(0))

    world.ports.seam.before = slow
    swept = wire_sweep(world.app).run()
    assert (swept.ticked, swept.unfinished) == (1, True)


@pytest.mark.parametrize("cluster", ["faultbridge-canary", KEY.cluster, "none"])
def test_only_the_installation_may_send_canaries(world, cluster):
    forged = world.message(b"canary", source="canary", cluster=cluster, node=None)
    result = wire_ingest(world.app).ingest([by(forged, node_role(world))])
    assert list(result.reasons.values()) == ["untrusted"]
    assert last_sent_at(world.ports.table, LAST_RECORDED) is None
    own = world.message(b"canary", source="canary", cluster=CLUSTER, node=None)
    assert wire_ingest(world.app).ingest([by(own, "AROASWEEP:faultbridge-sweep")]).reasons == {}


def test_an_instance_of_a_foreign_role_is_refused_before_its_body_is_read(monkeypatch):
    def unused(*_: object) -> None:
        pytest.fail("the body of a record from a foreign role was used")

    world = World(settings=SENDER_PROOF, node_roles=("AROANODE",))
    monkeypatch.setattr(record_reader, "mask", unused)
    reader = replace(wire_ingest(world.app).reader, objects=None, decode=unused)
    foreign = by(world.message(XID_79), f"AROAFOREIGN:{instance(world)}")
    with pytest.raises(Rejected, match="AROAFOREIGN is not a role"):
        reader.read(foreign)


@pytest.mark.parametrize(
    ("way", "session", "claimed"),
    [
        ("an EC2 instance", None, False),
        ("an EKS pod with IRSA", "botocore-session-1", True),
        ("an EKS pod with Pod Identity", "eks-train-a-agent-0b1c2d3e", True),
        ("a HyperPod node", "SageMaker", True),
    ],
)
def test_only_what_an_instance_says_about_itself_is_more_than_a_claim(way, session, claimed):
    world = World(settings=SENDER_PROOF, trusted_senders=("AROALISTED:*",), node_roles=("AROANODE",))
    sender = node_role(world) if session is None else f"AROALISTED:{session}"
    world.outcomes(by(world.message(XID_79), sender))
    (condition,) = world.node().conditions.values()
    assert condition.claimed is claimed, way


def test_a_listed_session_that_is_named_like_the_instance_is_a_claim_too():
    world = World(settings=SENDER_PROOF, trusted_senders=("AROALISTED:*",), node_roles=("AROANODE",))
    world.outcomes(by(world.message(XID_79), f"AROALISTED:{instance(world)}"))
    (condition,) = world.node().conditions.values()
    assert condition.claimed
