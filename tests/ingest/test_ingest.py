"""Ingest: each record of a batch has one outcome, and a bad one harms no other."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.records import Outcome
from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict, Transient
from faultbridge.ingest.poison_messages import MAX_BEGINNINGS, SUSPICIOUS_FROM
from faultbridge.ingest.record_reader import Delivery
from faultbridge.pipeline.normalize.oversized_records import MAX_FAULTS
from faultbridge.registry.registration import NewNode
from faultbridge.simulation.fakes import raise_once
from faultbridge.storage import keys
from faultbridge.storage.wire.message import raw_key
from tests.builders import KEY, NOON
from tests.races import run_before_write, writes_to
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


def test_a_whole_batch_again_reversed_after_twenty_days_changes_no_state():
    world = World(nodes=("a", "b"))
    batch = [world.message(text, node=node) for node in ("a", "b") for text in (XID_79, XID_31, SMI_NOISE)]
    world.outcomes(*batch)
    before = {item["pk"]: item for item in world.ports.table.items() if item["sk"] == "STATE"}
    world.ports.clock.advance(timedelta(days=20))
    again = world.app.ingestion.ingest(list(reversed(batch)))
    assert set(again.outcomes.values()) <= {Outcome.STALE, Outcome.CLEAN}
    assert {item["pk"]: item for item in world.ports.table.items() if item["sk"] == "STATE"} == before


def test_one_batch_folds_a_node_in_one_commit():
    world = World()
    commits = len(world.ports.seam.named("table.transact"))
    world.outcomes(*(world.message(f"[{number}.5] {XID_79}") for number in range(20)))
    assert len(world.ports.seam.named("table.transact")) == commits + 1
    assert world.node().conditions["xid.79@gpu/pci=0000:c1:00"].count >= 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"node": "nobody"}, "unknown_node"),
        ({"cluster": "elsewhere"}, "unknown_cluster"),
        ({"source": "tea-leaves"}, "unknown_source"),
        ({"text": "\0\1\2"}, "binary"),
        ({"text": ""}, "empty"),
        ({"text": "<nvidia_smi_log><gpu", "source": "nvidia-smi-xml"}, "malformed_xml"),
        ({"text": '{"some": "thing"}', "source": "dcgm-health"}, "wrong_shape"),
    ],
)
def test_a_record_that_nobody_can_use_is_rejected_with_its_reason_and_the_rest_is_not(given, reason):
    world = World()
    bad = world.message(**{"text": XID_79, **given})
    ingested = world.app.ingestion.ingest([bad, world.message(XID_79)])
    assert sorted(ingested.outcomes.values()) == [Outcome.RECORDED, Outcome.REJECTED]
    assert list(ingested.reasons.values()) == [reason]
    assert not ingested.failed


def test_a_message_that_is_no_message_is_rejected_and_still_accounted_for():
    world = World()
    ingested = world.app.ingestion.ingest([Delivery("message-x", "not json", NOON)])
    assert list(ingested.outcomes.values()) == [Outcome.REJECTED]


def test_a_rejected_record_is_recorded_once_its_node_is_known():
    world = World()
    world.outcomes(world.message(XID_79, node="late-comer"))
    world.register_node("late-comer")
    (reject,) = world.app.ingestion.rejects.list(KEY.cluster)
    world.app.ingestion.rejects.retry(reject)
    (message,) = world.ports.queue.receive()
    assert world.outcomes(Delivery("again", message.body, world.now)) == [Outcome.RECORDED]
    assert not list(world.app.ingestion.rejects.list(KEY.cluster))


def test_an_outage_of_the_table_gives_back_the_records_and_settles_none():
    world = World()
    world.ports.seam.before = raise_once(("table.transact", Transient("throttled")))
    message = world.message(XID_79)
    ingested = world.app.ingestion.ingest([message])
    assert (ingested.failed, ingested.outcomes) == ({message.id}, {})
    assert world.outcomes(message) == [Outcome.RECORDED]


def test_a_body_that_cannot_be_fetched_now_gives_back_its_record() -> None:
    world = World()
    pointer = raw_key("train-a", world.now, XID_79.encode())
    world.ports.objects.put(pointer, XID_79.encode())
    pointing = world.pointing(pointer)
    world.ports.seam.before = raise_once(("objects.get", Transient("down")))
    ingested = world.app.ingestion.ingest([pointing])
    assert (ingested.failed, ingested.outcomes) == ({pointing.id}, {})
    assert world.outcomes(pointing) == [Outcome.RECORDED]


def test_a_record_whose_rejection_cannot_be_kept_comes_again() -> None:
    world = World()
    stranger = world.message(XID_79, node="nobody-knows-it")
    world.ports.seam.before = raise_once(("objects.put", Transient("down")), ("table.write", Transient("down")))
    ingested = world.app.ingestion.ingest([stranger])
    assert (ingested.failed, ingested.outcomes) == ({stranger.id}, {})
    world.ports.seam.before = lambda _: None
    assert world.outcomes(stranger) == [Outcome.REJECTED]


def test_one_node_in_the_way_gives_back_its_own_records_only():
    world = World(nodes=("a", "b"))

    def only_a(call):
        if call.name == "table.transact" and keys.node_partition(KEY._replace(node="a")) in str(call.argument):
            raise Transient("throttled")

    world.ports.seam.before = only_a
    first, second = world.message(XID_79, node="a"), world.message(XID_79, node="b")
    ingested = world.app.ingestion.ingest([first, second])
    assert ingested.failed == {first.id}
    assert list(ingested.outcomes.values()) == [Outcome.RECORDED]


def test_a_record_of_a_former_instance_triggers_nothing():
    world = World()
    stranger = world.message(XID_79, node=None, instance_id="i-0123456789abcdef0")
    assert world.outcomes(stranger) == [Outcome.REJECTED]
    former = world.message(XID_79, instance_id="i-0123456789abcdef0")
    assert world.outcomes(former) == [Outcome.RECORDED]
    assert world.node().status is NodeStatus.HEALTHY


def test_a_flood_becomes_one_fault_that_counts_them():
    world = World()
    flood = "\n".join(f"NVRM: Xid (PCI:0000:{bus:02x}:00): 79, pid=1, gone" for bus in range(70))
    assert world.outcomes(world.message(flood)) == [Outcome.RECORDED]
    assert [condition.code for condition in world.node().active()] == ["agent.flood"]


def test_a_body_put_aside_is_fetched():
    world = World()
    key = "raw/train-a/2026-02-03/" + "0" * 64
    world.ports.objects.put(key, XID_79.encode())
    pointing = world.pointing(key)
    assert world.outcomes(pointing) == [Outcome.RECORDED]
    assert world.outcomes(world.pointing("raw/train-a/2026-02-03/" + "1" * 64)) == [Outcome.REJECTED]


def gauge(xid: int) -> str:
    return f'DCGM_FI_DEV_XID_ERRORS{{gpu="0",UUID="GPU-1",pci_bus_id="00000000:C1:00.0",Hostname="{KEY.node}"}} {xid}\n'


def test_a_sticky_gauge_is_a_fault_when_it_changes_and_not_while_it_stays():
    world = World()
    outcomes = []
    for xid in (0, 79, 79):
        outcomes += world.outcomes(world.message(gauge(xid), source="dcgm-metrics"))
        world.ports.clock.advance(60)
    assert outcomes == [Outcome.CLEAN, Outcome.RECORDED, Outcome.CLEAN]
    assert [condition.count for condition in world.node().active()] == [1]


def test_a_counter_sample_told_again_is_compared_with_nothing():
    world = World()
    first, second = world.message(gauge(0), source="dcgm-metrics"), world.message(gauge(0), source="dcgm-metrics")
    world.outcomes(first)
    world.ports.clock.advance(60)
    changed = world.message(gauge(79), source="dcgm-metrics")
    world.outcomes(changed)
    before = world.node()
    assert set(world.outcomes(changed, second, first)) == {Outcome.CLEAN}
    assert world.node() == before


def test_a_heartbeat_that_could_not_be_noted_is_given_back():
    world = World()
    beat = world.message(json.dumps({"heartbeat": 1, "at": to_text(NOON)}), source="heartbeat")
    run_before_write(world.ports.seam, writes_to(keys.heartbeat(KEY)), throttled)
    assert (
        world.app.ingestion.ingest([beat, world.message(SMI_NOISE)]).failed,
        world.ports.table.get(keys.heartbeat(KEY)),
    ) == (
        {beat.id},
        None,
    )
    assert world.app.ingestion.ingest([beat]).failed == set()
    assert world.ports.table.get(keys.heartbeat(KEY)) is not None


def throttled():
    raise Transient("throttled")


def test_repetitions_of_one_fault_are_no_flood():
    world = World()
    lines = [f"2026-02-03T11:{number // 60:02d}:{number % 60:02d},000000+00:00 {XID_31}" for number in range(200)]
    assert world.outcomes(world.message("\n".join([*lines, XID_79]))) == [Outcome.RECORDED]
    assert [condition.code for condition in world.node().active()] == ["xid.79"]


@pytest.mark.parametrize(("records", "commits"), [(MAX_FAULTS, 1), (MAX_FAULTS + 1, 2)])
def test_as_many_faults_as_one_commit_holds_are_one_commit(records, commits):
    world = World()
    before = world.node().head.version
    texts = [f"NVRM: Xid (PCI:0000:{bus:02x}:00): 79, pid=1, gone" for bus in range(records)]
    assert set(world.outcomes(*(world.message(text) for text in texts))) == {Outcome.RECORDED}
    assert world.node().head.version == before + commits


def test_the_first_record_of_another_boot_ends_what_a_boot_ends():
    world = World()
    pending = "NVRM: Xid (PCI:0000:c1:00): 63, pid=1, Row Remapper: New row marked for remapping, reset gpu to activate"
    world.outcomes(world.message(pending, boot_id="boot-1"))
    assert [condition.code for condition in world.node().active()] == ["xid.63"]
    world.ports.clock.advance(timedelta(minutes=5))
    world.outcomes(world.message(SMI_NOISE, boot_id="boot-1"))
    assert len(world.node().conditions) == 1
    world.outcomes(world.message(SMI_NOISE, boot_id="boot-2"))
    assert (world.node().conditions, world.node().incarnation.boot) == ({}, 2)


class Killed(BaseException):
    """The worker process ends here, as kill -9 would end it."""


def poisoned(world: World, delivery: Delivery) -> None:
    """Let the worker die whenever it reads this delivery."""
    read = world.app.ingestion.ingest.reader.decode

    def decode(source, body, hints):
        if b"poison" in body:
            raise Killed
        return read(source, body, hints)

    object.__setattr__(world.app.ingestion.ingest.reader, "decode", decode)


def test_a_record_that_kills_its_worker_is_rejected_after_three_times_alone_and_the_others_get_through():
    world = World()
    poison, good = world.message("poison"), world.message(XID_79)
    poisoned(world, poison)
    deaths = 0
    for receives in range(1, 20):
        batch = [replace(one, receives=receives) for one in (poison, good)]
        try:
            ingested = world.app.ingestion.ingest(batch)
        except Killed:
            deaths += 1
            continue
        break
    assert deaths == SUSPICIOUS_FROM - 1 + MAX_BEGINNINGS
    assert "kills_worker" in ingested.reasons.values()
    assert world.node().live_case is not None


def test_an_hour_of_outage_makes_nobody_a_poison():
    world = World()
    message = world.message(XID_79)
    for receives in range(1, 25):
        world.ports.seam.before = raise_once(("table.transact", Transient("down")))
        assert world.app.ingestion.ingest([replace(message, receives=receives)]).failed == {message.id}
    world.ports.seam.before = lambda call: None
    assert world.outcomes(replace(message, receives=25)) == [Outcome.RECORDED]


def test_the_whole_record_is_kept_where_an_excerpt_was_cut():
    world = World()
    long_line = XID_79 + " " + "x" * 6000
    world.outcomes(world.message(long_line))
    (condition,) = world.node().active()
    assert world.ports.objects.stored[condition.attributes["evidence_object"]] == long_line.encode()


def test_a_conflict_over_the_mark_of_a_suspect_gives_it_back_and_rejects_nothing() -> None:
    world = World()
    message = replace(world.message(), receives=SUSPICIOUS_FROM)
    world.ports.seam.before = raise_once(("table.write", Conflict("another transaction is at it")))
    ingested = world.app.ingestion.ingest([message])
    assert ingested.failed == {message.id}
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
def test_gpus_are_counted_against_the_nodes_instance_type_once_the_node_has_booted(instance_type, minutes, missing):
    world = World(nodes=())
    world.app.registry.registration.add_node(
        KEY.cluster, NewNode(KEY.node, world.ports.fleet.launch(GROUP), instance_type=instance_type)
    )
    world.ports.clock.advance(timedelta(minutes=minutes))
    world.outcomes(world.message(SIX_GPUS, source="nvidia-smi-xml"))
    assert ("host.gpu_count_mismatch@node" in world.node().conditions) == missing


def test_a_gpu_that_is_back_ends_the_want_of_it():
    world = World(nodes=())
    world.app.registry.registration.add_node(
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
