"""What the collector lists again after a restart changes nothing in the table, and a change reaches it once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from faultbridge.local.kubernetes.cluster import RunningInstance
from faultbridge.model.cluster.config import Mode
from faultbridge.model.nodes import Incarnation
from faultbridge.model.storage import keys
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.services import wire_jobs
from tests.agent.fakes import FakeTransport, ManualClock
from tests.builders import KEY
from tests.collector.builders import pod
from tests.collector.cluster import XID_79, Collected, agent_event, collected
from tests.world import World

HEALTHY = {**XID_79, "status": "True", "reason": "NoIssue"}


class ToTable(FakeTransport):
    """A transport that passes each record to ingest."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def send_batch(self, records: Sequence[OutgoingRecord]) -> tuple[set[str], set[str]]:
        for record in records:
            ingested = wire_ingest(self.world.app).ingest(
                [Delivery(f"m-{record.record_id}", record.text, self.world.now)]
            )
            assert not ingested.reasons, ingested.reasons
        return super().send_batch(records)


class Site:
    """A Kubernetes cluster whose node is registered, and an installation that ingests its records."""

    def __init__(self, kubernetes: Collected) -> None:
        self.kubernetes, self.world = kubernetes, World(mode=Mode.OBSERVE)
        kubernetes.transport = ToTable(self.world)
        incarnation = self.world.node().incarnation
        assert isinstance(incarnation, Incarnation)
        kubernetes.cluster.sync([RunningInstance(str(incarnation.instance_id), KEY.node)])

    def collect(self) -> None:
        """Start a new collector a minute later, which lists everything."""
        self.world.ports.clock.advance(timedelta(minutes=1))
        clock = ManualClock()
        clock.wall = self.world.now
        assert self.kubernetes.collector(clock, jobs=True).run_once(5) is None

    def at(self) -> str:
        """The time of the installation, as Kubernetes writes it."""
        return self.world.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def entries(self) -> int:
        return len(self.world.ports.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items)

    def active(self) -> set[str]:
        return {condition.code for condition in self.world.node().active()}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with collected(tmp_path) as kubernetes:
        yield Site(kubernetes)


def test_what_a_restart_lists_again_adds_no_entry(site: Site) -> None:
    site.kubernetes.cluster.set_condition(KEY.node, {**XID_79, "lastTransitionTime": site.at()})
    event = {**agent_event("one"), "involvedObject": {"kind": "Node", "name": KEY.node}, "lastTimestamp": site.at()}
    site.kubernetes.cluster.record_event(event)
    site.collect()
    entries = site.entries()
    assert site.active() == {"xid.79"}
    for _ in range(3):
        site.collect()
    assert site.entries() == entries


def test_the_next_healthy_report_ends_what_conditions_and_events_of_the_agent_reported(site: Site) -> None:
    site.kubernetes.cluster.set_condition(KEY.node, {**XID_79, "lastTransitionTime": site.at()})
    event = {**agent_event("one"), "involvedObject": {"kind": "Node", "name": KEY.node}, "lastTimestamp": site.at()}
    site.kubernetes.cluster.record_event(event)
    site.collect()
    site.kubernetes.cluster.set_condition(KEY.node, {**HEALTHY, "lastTransitionTime": site.at()})
    site.collect()
    assert site.active() == set()
    site.collect()  # the event is listed again
    assert site.active() == set()


def test_a_condition_of_the_old_instance_does_not_reach_its_successor(site: Site) -> None:
    site.kubernetes.cluster.sync([RunningInstance("i-0000000000000dead", KEY.node)])
    site.kubernetes.cluster.patch_node(KEY.node, {"spec": {"providerID": "aws:///z/i-0000000000000dead"}})
    site.kubernetes.cluster.set_condition(KEY.node, {**XID_79, "lastTransitionTime": site.at()})
    site.collect()
    assert site.active() == set()


def test_a_job_of_pods_runs_and_fails_in_the_table_also_if_it_is_listed_again(site: Site) -> None:
    running = pod("llm-0", KEY.node)
    running["status"]["startTime"] = site.at()
    site.kubernetes.cluster.apply_pod(running)
    jobs = wire_jobs(site.world.app)
    for _ in range(2):
        site.collect()
        assert jobs.show(KEY.cluster, "ml/llm").ranks == {KEY.node: "0-7"}
    failed = pod("llm-0", KEY.node, "Failed")
    failed["status"]["startTime"] = running["status"]["startTime"]
    failed["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = site.at()
    site.kubernetes.cluster.apply_pod(failed)
    for _ in range(2):
        site.collect()
        ended = jobs.show(KEY.cluster, "ml/llm")
        assert (ended.state_at(site.world.now), ended.outcome) == ("ended", "failed")


def test_a_job_that_failed_and_started_again_while_the_collector_was_down_runs_with_its_new_pods(site: Site) -> None:
    first = pod("llm-0", KEY.node)
    first["status"]["startTime"] = site.at()
    site.kubernetes.cluster.apply_pod(first)
    site.collect()
    jobs, started_at = wire_jobs(site.world.app), site.world.now
    site.world.ports.clock.advance(timedelta(hours=1))
    site.kubernetes.cluster.delete_pod("uid-llm-0")
    again = pod("llm-0", KEY.node)
    again["metadata"]["uid"], again["status"]["startTime"] = "uid-again", site.at()
    site.kubernetes.cluster.apply_pod(again)
    for _ in range(2):
        site.collect()
        found = jobs.show(KEY.cluster, "ml/llm")
        assert found.runs
        assert found.started_at > started_at
