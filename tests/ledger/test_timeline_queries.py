"""Timelines of devices, jobs, codes and cases."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultbridge.model.enums import EntryType, JobChangeKind
from faultbridge.model.errors import Rejected
from faultbridge.model.event_data import JobData, NodeList
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component
from faultbridge.record.timeline import Timeline, TimelineQuery
from tests.builders import fault
from tests.ingest.world import LedgerFixture

UUID, SERIAL = "GPU-7d8e", "1320923"


def gpu(**others: Any) -> Component:
    return Component(ComponentType.GPU, pci="0000:c1:00", **others)


def entries_of(timeline: Timeline, **query: Any) -> list[tuple[str, str]]:
    lines = timeline.entries(TimelineQuery(**query))
    return [(line.event.metadata.node, line.event.metadata.event_type) for line in lines]


@pytest.mark.parametrize("name", [UUID, SERIAL])
def test_a_device_is_found_on_every_node_by_serial_number_or_uuid(name: str) -> None:
    world = LedgerFixture()
    for node in ("n-1", "n-2"):
        world.observe_faults(world.register_node(node), fault(component=gpu(uuid=UUID, serial=SERIAL)))
        world.pass_time(minutes=1)
    faults = [found for found in entries_of(Timeline(world.table), device=name) if "Fault" in found[1]]
    assert faults == [("n-1", "Node Fault Detected"), ("n-2", "Node Fault Detected")]


def test_entries_with_only_the_uuid_belong_to_the_device_too() -> None:
    world = LedgerFixture()
    world.observe_faults(world.register_node("n-1"), fault(component=gpu(uuid=UUID)))
    world.pass_time(minutes=1)
    world.observe_faults(world.register_node("n-2"), fault(component=gpu(uuid=UUID, serial=SERIAL)))
    assert list(dict.fromkeys(node for node, _ in entries_of(Timeline(world.table), device=UUID))) == ["n-1", "n-2"]


def test_entries_with_only_the_serial_number_belong_to_the_uuid_that_has_it() -> None:
    world = LedgerFixture()
    for node, component in (("n-1", gpu(uuid=UUID, serial=SERIAL)), ("n-2", gpu(serial=SERIAL))):
        world.observe_faults(world.register_node(node), fault(component=component))
        world.pass_time(minutes=1)
    assert {node for node, _ in entries_of(Timeline(world.table), device=UUID)} == {"n-1", "n-2"}


def test_gpus_that_share_a_serial_number_are_distinguished_by_uuid() -> None:
    world = LedgerFixture()
    world.observe_faults(world.register_node("n-1"), fault(component=gpu(uuid=UUID, serial=SERIAL)))
    world.pass_time(minutes=1)
    world.observe_faults(world.register_node("n-2"), fault(component=gpu(uuid="GPU-other", serial=SERIAL)))
    timeline = Timeline(world.table)
    assert {node for node, _ in entries_of(timeline, device=UUID)} == {"n-1"}
    assert {node for node, _ in entries_of(timeline, device=SERIAL)} == {"n-1", "n-2"}


def test_a_device_query_with_a_cluster_excludes_other_clusters() -> None:
    world = LedgerFixture()
    world.observe_faults(world.register_node("n-1"), fault(component=gpu(serial=SERIAL)))
    assert entries_of(Timeline(world.table), device=SERIAL, cluster="another") == []


def job_data(job: str, reason: str) -> JobData:
    """Return the data of an entry about a job."""
    return JobData(
        job_id=job,
        name=None,
        change=JobChangeKind.HIT,
        reason=reason,
        nodes=NodeList(count=0, listed=()),
        started_at=None,
        ended_at=None,
        outcome=None,
        hit=None,
    )


def test_a_job_query_returns_the_entries_that_name_the_job() -> None:
    world = LedgerFixture()
    for node in ("n-1", "n-2"):
        key = world.register_node(node)
        world.pass_time(minutes=1)
        world.note(key, "hit", type=EntryType.JOB, data=job_data("4711", "hit"))
        world.note(key, "not hit")
    timeline = Timeline(world.table)
    assert [node for node, _ in entries_of(timeline, cluster="train-a", job="4711")] == ["n-1", "n-2"]
    assert entries_of(timeline, cluster="train-a", job="4712") == []
    first, token = timeline.page(TimelineQuery("train-a", job="4711"), 1)
    rest, end = timeline.page(TimelineQuery("train-a", job="4711"), 1, token)
    assert [line.event.metadata.node for line in (*first, *rest)] == ["n-1", "n-2"]
    assert end is None


def test_a_job_query_with_a_case_or_a_device_returns_only_entries_of_both() -> None:
    world = LedgerFixture()
    key = world.register_node("n-1")
    case = world.observe_faults(key, fault(component=gpu(serial=SERIAL))).live_case
    assert case is not None
    for job, case_id in (("4711", case.id), ("4711", None), ("4712", case.id)):
        world.pass_time(minutes=1)
        world.note(key, job, case_id=case_id, type=EntryType.JOB, data=job_data(job, job))
    timeline = Timeline(world.table)
    both = list(timeline.entries(TimelineQuery("train-a", case=case.id, job="4711")))
    assert [(one.event.data.reason, one.event.metadata.case_id) for one in both] == [("4711", case.id)]
    assert len(list(timeline.entries(TimelineQuery("train-a", job="4711")))) == 2
    assert entries_of(timeline, cluster="train-a", device=SERIAL)
    assert entries_of(timeline, cluster="train-a", device=SERIAL, job="4711") == []
    of_case = entries_of(timeline, cluster="train-a", case=case.id)
    of_both = entries_of(timeline, cluster="train-a", case=case.id, device=SERIAL)
    assert ("n-1", "Job Change") in of_case
    assert ("n-1", "Job Change") not in of_both
    assert ("n-1", "Case Status Change") in of_both


def test_a_job_query_with_a_device_leaves_out_entries_of_other_devices_that_name_no_uuid() -> None:
    data = {"code": "xid.79", "component": {"type": "gpu", "serial": SERIAL}}
    item = {
        "cluster": "train-a",
        "device": SERIAL,
        "recorded_at": "2026-02-03T12:00:00.000Z",
        "body": json.dumps({"metadata": {"event_type": EntryType.FAULT_DETECTED.value}, "data": data}),
    }
    of_job = {name: TimelineQuery("train-a", job="4711", device=name) for name in (SERIAL, "another", "GPU-another")}
    assert {name: query.covers(item) for name, query in of_job.items()} == {
        SERIAL: True,
        "another": False,
        "GPU-another": False,
    }


def test_a_job_query_without_its_cluster_selects_no_timeline() -> None:
    with pytest.raises(Rejected, match="nothing_asked"):
        entries_of(Timeline(LedgerFixture().table), case="c-1", job="4711")


def test_a_code_query_returns_the_entries_with_the_code() -> None:
    world = LedgerFixture()
    key = world.register_node("n-1")
    world.observe_faults(key, fault(), fault("xid.92"))
    kinds = entries_of(Timeline(world.table), cluster="train-a", codes=("xid.92",))
    assert (key.node, EntryType.FAULT_DETECTED.value) in kinds
    codes = [
        line.event.data.code for line in Timeline(world.table).entries(TimelineQuery("train-a", codes=("xid.92",)))
    ]
    assert set(codes) == {"xid.92"}


def test_a_case_query_with_another_cluster_returns_nothing() -> None:
    world = LedgerFixture()
    case = world.observe_faults(world.register_node("n-1")).live_case
    assert case is not None
    assert entries_of(Timeline(world.table), case=case.id, cluster="train-a")
    assert entries_of(Timeline(world.table), case=case.id, cluster="another") == []
