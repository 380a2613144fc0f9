"""Ingest: each record of a batch gets exactly one outcome, and an invalid record does not affect the others."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from msgspec.structs import force_setattr

from faultbridge.decide.fold.capacity import MAX_CHANGES
from faultbridge.decide.normalize.oversized_records import MAX_FAULTS
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.errors import Conflict, Transient
from faultbridge.model.records import Outcome
from faultbridge.model.storage import heartbeats
from faultbridge.model.storage.wire.message import raw_key
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.ingest import ALONE_FROM_RECEIVES, MAX_ATTEMPTS
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.services import wire_registration, wire_rejects
from tests.builders import KEY, NOON
from tests.races import run_before_write
from tests.sim.fakes import raise_once
from tests.world import GROUP, XID_31, XID_79, World

SMI_NOISE = "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.15"


def test_a_fatal_fault_degrades_its_node_and_queues_a_case():
    world = World()
    assert world.outcomes(world.message(XID_79)) == [Outcome.RECORDED]
    state = world.node()
    assert (state.status, state.live_case.status) == (NodeStatus.DEGRADED, CaseStatus.QUEUED)


def test_the_same_message_delivered_again_is_a_duplicate():
    world = World()
    message = world.message(XID_79)
    world.outcomes(message)
    before = world.node()
    assert world.outcomes(message) == [Outcome.DUPLICATE]
    assert world.node() == before


def test_a_line_with_microseconds_that_is_delivered_again_is_a_duplicate():
    world = World()
    message = world.message(f"2026-02-03T11:59:00,123456+00:00 {XID_79}")
    assert [world.outcomes(message), world.outcomes(message)] == [[Outcome.RECORDED], [Outcome.DUPLICATE]]
    assert [condition.count for condition in world.node().active()] == [1]


def test_a_batch_delivered_again_in_reverse_order_after_twenty_days_changes_no_state():
    world = World(nodes=("a", "b"))
    batch = [world.message(text, node=node) for node in ("a", "b") for text in (XID_79, XID_31, SMI_NOISE)]
    world.outcomes(*batch)
    before = {item["pk"]: item for item in world.ports.table.items() if item["sk"] == "STATE"}
    world.ports.clock.advance(timedelta(days=20))
    repeated = wire_ingest(world.app).ingest(list(reversed(batch)))
    assert set(repeated.outcomes.values()) <= {Outcome.STALE, Outcome.CLEAN}
    assert {item["pk"]: item for item in world.ports.table.items() if item["sk"] == "STATE"} == before


def test_all_records_of_a_node_in_a_batch_are_one_commit():
    world = World()
    commits = len(world.ports.seam.named("table.transact"))
    world.outcomes(*(world.message(f"[{number}.5] {XID_79}") for number in range(20)))
    assert len(world.ports.seam.named("table.transact")) == commits + 1
    assert world.node().conditions["gpu.lost@gpu/pci=0000:c1:00"].count >= 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"node": "unregistered"}, "unknown_node"),
        ({"cluster": "unregistered"}, "unknown_cluster"),
        ({"source": "no-such-source"}, "unknown_source"),
        ({"text": "\0\1\2"}, "binary"),
        ({"text": ""}, "empty"),
        ({"text": "<nvidia_smi_log><gpu", "source": "nvidia-smi-xml"}, "malformed_xml"),
        ({"text": '{"some": "thing"}', "source": "dcgm-health"}, "wrong_shape"),
    ],
)
def test_an_unusable_record_is_rejected_with_its_reason_and_the_others_are_not(given, reason):
    world = World()
    bad = world.message(**{"text": XID_79, **given})
    ingested = wire_ingest(world.app).ingest([bad, world.message(XID_79)])
    assert sorted(ingested.outcomes.values()) == [Outcome.RECORDED, Outcome.REJECTED]
    assert list(ingested.reasons.values()) == [reason]
    assert not ingested.failed


def test_a_message_without_the_record_format_is_rejected_and_has_an_outcome():
    world = World()
    ingested = wire_ingest(world.app).ingest([Delivery("message-x", "not json", NOON)])
    assert list(ingested.outcomes.values()) == [Outcome.REJECTED]


def test_a_rejected_record_is_recorded_after_its_node_is_registered():
    world = World()
    world.outcomes(world.message(XID_79, node="registered-later"))
    world.register_node("registered-later")
    (reject,) = wire_rejects(world.app).list(KEY.cluster)
    wire_rejects(world.app).retry(reject)
    (message,) = world.ports.queue.receive()
    assert world.outcomes(Delivery("again", message.body, world.now)) == [Outcome.RECORDED]
    assert not list(wire_rejects(world.app).list(KEY.cluster))


def test_an_outage_of_the_table_gives_back_the_records_without_an_outcome():
    world = World()
    world.ports.seam.before = raise_once(("table.transact", Transient("throttled")))
    message = world.message(XID_79)
    ingested = wire_ingest(world.app).ingest([message])
    assert (ingested.failed, ingested.outcomes) == ({message.id: "state_unavailable"}, {})
    assert world.outcomes(message) == [Outcome.RECORDED]


def test_a_body_that_cannot_be_read_now_gives_back_its_record() -> None:
    world = World()
    pointer = raw_key("train-a", world.now, XID_79.encode())
    world.ports.objects.put(pointer, XID_79.encode())
    pointing = world.pointing(pointer)
    world.ports.seam.before = raise_once(("objects.get", Transient("down")))
    ingested = wire_ingest(world.app).ingest([pointing])
    assert (ingested.failed, ingested.outcomes) == ({pointing.id: "input_unavailable"}, {})
    assert world.outcomes(pointing) == [Outcome.RECORDED]


def test_a_rejected_record_that_cannot_be_stored_is_given_back() -> None:
    world = World()
    unknown = world.message(XID_79, node="unregistered")
    world.ports.seam.before = raise_once(("objects.put", Transient("down")), ("table.write", Transient("down")))
    ingested = wire_ingest(world.app).ingest([unknown])
    assert (ingested.failed, ingested.outcomes) == ({unknown.id: "rejects_unavailable"}, {})
    world.ports.seam.before = lambda _: None
    assert world.outcomes(unknown) == [Outcome.REJECTED]


def test_a_record_of_an_earlier_instance_changes_no_status():
    world = World()
    unknown = world.message(XID_79, node=None, instance_id="i-0123456789abcdef0")
    assert world.outcomes(unknown) == [Outcome.REJECTED]
    earlier = world.message(XID_79, instance_id="i-0123456789abcdef0")
    assert world.outcomes(earlier) == [Outcome.RECORDED]
    assert world.node().status is NodeStatus.HEALTHY


def test_a_late_clear_of_the_old_instance_does_not_end_the_condition_of_the_new_one():
    def record(kind: str) -> str:
        component = {"type": "gpu", "pci": "0000:c1:00"}
        return json.dumps({"kind": kind, "code": "xid.79", "component": component, "message": "GPU off the bus"})

    world = World()
    assert world.outcomes(world.message(record("fault"), source="faultbridge")) == [Outcome.RECORDED]
    world.ports.clock.advance(60)
    late = world.message(record("clear"), source="faultbridge", instance_id="i-0123456789abcdef0")
    assert world.outcomes(late) == [Outcome.STALE]
    assert [condition.code for condition in world.node().active()] == ["xid.79"]
    assert world.outcomes(world.message(record("clear"), source="faultbridge")) == [Outcome.RECORDED]
    assert list(world.node().active()) == []


def test_of_a_record_with_too_many_faults_the_worst_are_recorded_and_one_fault_stands_for_the_others():
    world = World()
    noise = [f"NVRM: Xid (PCI:0000:{bus:02x}:00): 94, pid=1, contained" for bus in range(100)]
    assert world.outcomes(world.message("\n".join([*noise, XID_79]))) == [Outcome.RECORDED]
    codes = [condition.code for condition in world.node().active()]
    assert (codes.count("xid.79"), codes.count("xid.94")) == (1, MAX_FAULTS - 2)
    assert world.node().conditions["sensor.probe_failed@node"].attributes["faults"] == "101"


def test_a_body_in_the_object_store_is_read_and_a_missing_one_is_rejected():
    world = World()
    key = raw_key("train-a", world.now, XID_79.encode())
    world.ports.objects.put(key, XID_79.encode())
    pointing = world.pointing(key)
    assert world.outcomes(pointing) == [Outcome.RECORDED]
    assert world.outcomes(world.pointing("raw/train-a/2026-02-03/" + "1" * 64)) == [Outcome.REJECTED]


def test_a_body_that_another_node_replaced_in_the_object_store_is_rejected() -> None:
    world = World()
    key = raw_key("train-a", world.now, b"the body that was sent")
    world.ports.objects.put(key, XID_79.encode())
    pointing = world.pointing(key)
    assert set(wire_ingest(world.app).ingest([pointing]).reasons.values()) == {"body_changed"}
    assert list(world.node().active()) == []


def xid_gauge(xid: int) -> str:
    return f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="GPU-1",pci_bus_id="00000000:C1:00.0",Hostname="{KEY.node}"}} {xid}\n'


def test_an_xid_gauge_is_a_fault_only_when_its_value_changes():
    world = World()
    outcomes = []
    for xid in (0, 79, 79):
        outcomes += world.outcomes(world.message(xid_gauge(xid), source="dcgm-metrics"))
        world.ports.clock.advance(60)
    assert outcomes == [Outcome.CLEAN, Outcome.RECORDED, Outcome.CLEAN]
    assert [condition.count for condition in world.node().active()] == [1]


def test_counter_faults_beyond_one_commit_are_all_recorded():
    def gauges(xid: int) -> str:
        gauge = 'DCGM_FI_DEV_XID_ERRORS{{gpu="{0}",UUID="GPU-{0}",pci_bus_id="00000000:{0:02X}:00.0"}} {1}\n'
        return "".join(gauge.format(gpu, xid) for gpu in range(MAX_CHANGES + 10))

    world = World()
    world.outcomes(world.message(gauges(0), source="dcgm-metrics"))
    world.ports.clock.advance(60)
    result = wire_ingest(world.app).ingest([world.message(gauges(79), source="dcgm-metrics")])
    assert (list(result.outcomes.values()), result.failed) == ([Outcome.RECORDED], {})
    assert [condition.code for condition in world.node().active()] == ["xid.79"] * (MAX_CHANGES + 10)


def test_a_counter_sample_delivered_again_is_not_compared():
    world = World()
    first, second = (
        world.message(xid_gauge(0), source="dcgm-metrics"),
        world.message(xid_gauge(0), source="dcgm-metrics"),
    )
    world.outcomes(first)
    world.ports.clock.advance(60)
    changed = world.message(xid_gauge(79), source="dcgm-metrics")
    world.outcomes(changed)
    before = world.node()
    assert set(world.outcomes(changed, second, first)) == {Outcome.CLEAN}
    assert world.node() == before


def test_a_heartbeat_that_could_not_be_stored_is_given_back():
    world = World()
    beat = world.message(json.dumps({"heartbeat": 1, "at": to_text(NOON)}), source="heartbeat")
    run_before_write(world.ports.seam, lambda write: write.key.pk == heartbeats.partition(KEY.cluster), throttled)
    ingested = wire_ingest(world.app).ingest([beat, world.message(SMI_NOISE)])
    assert ingested.failed == {beat.id: "heartbeats_unavailable"}
    assert world.ports.table.query(heartbeats.partition(KEY.cluster)).items == ()
    assert wire_ingest(world.app).ingest([beat]).failed == {}
    assert len(world.ports.table.query(heartbeats.partition(KEY.cluster)).items) == 1


def throttled():
    raise Transient("throttled")


def test_repetitions_of_one_fault_are_not_a_flood():
    world = World()
    lines = [f"2026-02-03T11:{number // 60:02d}:{number % 60:02d},000000+00:00 {XID_31}" for number in range(200)]
    assert world.outcomes(world.message("\n".join([*lines, XID_79]))) == [Outcome.RECORDED]
    assert [condition.code for condition in world.node().active()] == ["xid.79"]


@pytest.mark.parametrize(("records", "commits"), [(MAX_CHANGES, 1), (MAX_CHANGES + 1, 2)])
def test_faults_beyond_the_limit_of_one_commit_take_a_second_commit(records, commits):
    world = World()
    before = world.node().head.version
    texts = [f"NVRM: Xid (PCI:0000:{bus:02x}:00): 79, pid=1, gone" for bus in range(records)]
    assert set(world.outcomes(*(world.message(text) for text in texts))) == {Outcome.RECORDED}
    assert world.node().head.version == before + commits


def test_a_fault_of_a_new_boot_is_recorded_although_the_reboot_ended_the_same_fault_of_the_former_boot():
    def line(time: str) -> str:
        return f"2026-02-03T{time},000000+00:00 NVRM: Xid (PCI:0000:c1:00): 48, pid=1, DBE (double bit error) ECC Error"

    world = World()
    world.outcomes(world.message(line("11:59:00"), boot_id="boot-1"))
    world.ports.clock.advance(600)
    assert world.outcomes(world.message(line("12:09:40"), boot_id="boot-2")) == [Outcome.RECORDED]
    late = world.message(line("12:09:30"), boot_id="boot-1", sent_at=NOON + timedelta(minutes=9, seconds=31))
    assert world.outcomes(late) == [Outcome.DUPLICATE]
    (condition,) = world.node().active()
    assert (condition.since, condition.count) == (NOON + timedelta(minutes=9, seconds=40), 1)
    assert (world.node().status, world.node().live_case.status) == (NodeStatus.DEGRADED, CaseStatus.QUEUED)


def test_the_first_record_of_a_new_boot_clears_conditions_that_a_reboot_clears():
    world = World()
    pending = "NVRM: Xid (PCI:0000:c1:00): 63, pid=1, Row Remapper: New row marked for remapping, reset gpu to activate"
    world.outcomes(world.message(pending, boot_id="boot-1"))
    assert [condition.code for condition in world.node().active()] == ["xid.63"]
    world.ports.clock.advance(timedelta(minutes=5))
    world.outcomes(world.message(SMI_NOISE, boot_id="boot-1"))
    assert len(world.node().conditions) == 1
    world.outcomes(world.message(SMI_NOISE, boot_id="boot-2"))
    assert (world.node().conditions, world.node().incarnation.boot) == ({}, 2)


class WorkerStopped(BaseException):
    """Simulates the end of the worker process, as after `kill -9`."""


def stop_worker_on_poison(world: World) -> None:
    """Stop the worker each time it decodes a body that contains `poison`."""
    read = wire_ingest(world.app).reader.decode

    def decode(source, body, hints):
        if b"poison" in body:
            raise WorkerStopped
        return read(source, body, hints)

    force_setattr(wire_ingest(world.app).reader, "decode", decode)


def test_a_record_that_stops_its_worker_is_rejected_after_three_attempts_alone_and_others_are_processed():
    world = World()
    poison, good = world.message("poison"), world.message(XID_79)
    stop_worker_on_poison(world)
    stops = 0
    for receives in range(1, 20):
        batch = [replace(one, receives=receives) for one in (poison, good)]
        try:
            ingested = wire_ingest(world.app).ingest(batch)
        except WorkerStopped:
            stops += 1
            continue
        break
    assert stops == ALONE_FROM_RECEIVES - 1 + MAX_ATTEMPTS
    assert "kills_worker" in ingested.reasons.values()
    assert world.node().live_case is not None


def test_an_outage_of_an_hour_makes_no_message_a_poison_message():
    world = World()
    message = world.message(XID_79)
    for receives in range(1, 25):
        world.ports.seam.before = raise_once(("table.transact", Transient("down")))
        assert wire_ingest(world.app).ingest([replace(message, receives=receives)]).failed == {
            message.id: "state_unavailable"
        }
    world.ports.seam.before = lambda call: None
    assert world.outcomes(replace(message, receives=25)) == [Outcome.RECORDED]


def test_the_full_record_is_stored_when_its_excerpt_was_shortened():
    world = World()
    long_line = XID_79 + " " + "x" * 6000
    world.outcomes(world.message(long_line))
    (condition,) = world.node().active()
    assert world.ports.objects.stored[condition.attributes["evidence_object"]] == long_line.encode()


def test_a_conflict_while_counting_an_attempt_gives_the_message_back_and_rejects_nothing() -> None:
    world = World()
    message = replace(world.message(), receives=ALONE_FROM_RECEIVES)
    world.ports.seam.before = raise_once(("table.write", Conflict("another transaction writes the item")))
    ingested = wire_ingest(world.app).ingest([message])
    assert ingested.failed == {message.id: "conflict"}
    assert ingested.outcomes == {}


SIX_GPUS = (
    b"<nvidia_smi_log><attached_gpus>6</attached_gpus>"
    + b"".join(b'<gpu id="00000000:%02X:00.0"><uuid>GPU-%d</uuid></gpu>' % (n, n) for n in range(1, 7))
    + b"</nvidia_smi_log>"
)


@pytest.mark.parametrize(
    ("instance_type", "minutes", "missing"),
    [
        ("p5.48xlarge", 3, True),
        ("p5.48xlarge", 2, True),
        ("p5.48xlarge", 1, False),
        ("g5.12xlarge", 3, False),
        (None, 3, False),
    ],
)
def test_the_gpu_count_is_compared_with_the_instance_type_two_minutes_after_boot(instance_type, minutes, missing):
    world = World(nodes=())
    wire_registration(world.app).add_node(
        KEY.cluster, NewNode(KEY.node, world.ports.fleet.launch(GROUP), instance_type=instance_type)
    )
    world.ports.clock.advance(timedelta(minutes=minutes))
    world.outcomes(world.message(SIX_GPUS, source="nvidia-smi-xml"))
    assert ("gpu.missing@node" in world.node().conditions) == missing


@pytest.mark.parametrize(("instance_type", "slow"), [("p5en.48xlarge", True), ("p5.48xlarge", False), (None, False)])
def test_the_rate_of_an_efa_device_is_compared_with_the_instance_type_of_the_node(instance_type, slow):
    world = World(nodes=())
    wire_registration(world.app).add_node(
        KEY.cluster, NewNode(KEY.node, world.ports.fleet.launch(GROUP), instance_type=instance_type)
    )
    world.ports.clock.advance(timedelta(minutes=3))
    port = b"/sys/class/infiniband/rdmap0s27/ports/1"
    body = port + b"/state: 4: ACTIVE\n" + port + b"/rate: %d Gb/sec (4X HDR)\n"
    world.outcomes(world.message(body % 120, source="infiniband-state"))
    code = "net.rate_below_expected"
    assert any(code in one.codes for one in world.node().active()) == slow
    world.ports.clock.advance(timedelta(minutes=3))
    world.outcomes(world.message(body % 200, source="infiniband-state"))
    assert not any(code in one.codes for one in world.node().active())


def test_the_gpu_count_fault_is_cleared_when_all_gpus_are_reported_again():
    world = World(nodes=())
    wire_registration(world.app).add_node(
        KEY.cluster, NewNode(KEY.node, world.ports.fleet.launch(GROUP), instance_type="ml.p5.48xlarge")
    )
    world.ports.clock.advance(timedelta(minutes=3))
    world.outcomes(world.message(SIX_GPUS, source="nvidia-smi-xml"))
    world.ports.clock.advance(timedelta(minutes=3))
    eight = SIX_GPUS.replace(b">6<", b">8<").replace(
        b"</nvidia_smi_log>", b'<gpu id="7:00.0"/><gpu id="8:00.0"/></nvidia_smi_log>'
    )
    world.outcomes(world.message(eight, source="nvidia-smi-xml"))
    assert world.node().conditions == {}
