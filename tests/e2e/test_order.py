"""A thousand nodes fail at once on the embedded stack: their cases are admitted in order.

What is shown is the order of admission, through the real functions, slots and state machine. A repair is as short as
one can be: the nodes have no group, so that each attempt ends with a person before anything is given up.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

import pytest

from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.queue import QueuedCase
from faultbridge.domain.times import from_text
from faultbridge.ingest.send import Parcel
from faultbridge.ledger.queries import rows_of
from faultbridge.local import environment
from faultbridge.repair.cluster_status import BAD
from faultbridge.storage.queue import QUEUE, read_queued
from tests.e2e.batches import DOUBLE_BIT, LOST
from tests.e2e.conftest import listened_to
from tests.e2e.installation import Installation
from tests.e2e.many import put_policy, register
from tests.local.stack import private_stack

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(3600)]

NODES, SLOTS = 1_000, 40
POLICY = f"""
rules:
  - name: mild
    match: {{codes: [xid.48]}}
    severity: error
    action: replace_node
  - name: lost
limits: {{concurrent: {SLOTS}, per_hour: 1000}}
"""
MINUTE = 30.0
"""Seconds that a scheduled minute lasts: each sweep asks indexes that the emulator searches from end to end."""

LOOK_EVERY = 10.0
"""Seconds; each look at a thousand rows keeps the emulator from its work."""


@dataclass
class Burst:
    """When each node was first heard of, isolated and admitted, and where its case stood in the queue."""

    waiting: list[QueuedCase]
    heard: dict[str, datetime] = field(default_factory=dict)
    isolated: dict[str, datetime] = field(default_factory=dict)
    admitted: dict[str, datetime] = field(default_factory=dict)

    @property
    def ticks(self) -> list[list[str]]:
        """The cases of each transaction of admission, in order of their writing."""
        found: dict[datetime, list[str]] = {}
        for node, at in sorted(self.admitted.items(), key=lambda one: one[1]):
            found.setdefault(at, []).append(node)
        return list(found.values())


@pytest.fixture(scope="module")
def burst(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Burst]:
    """A thousand nodes fail while repairs are paused, every tenth of them for good; then forty slots are free."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "MINUTE_SECONDS", MINUTE)
        with private_stack(tmp_path_factory.mktemp("order")) as stack:
            yield failed_at_once(listened_to(stack))


def failed_at_once(installation: Installation) -> Burst:
    """Let all nodes fail, keep their cases in the queue until all are there, and let them begin."""
    without_pages(installation)
    put_policy(installation, POLICY)
    cluster = register(installation, "train-thousand", NODES, grouped=False)
    installation.application.controls.pause(cluster, paused=True)
    order = [*range(NODES)]
    Random(11).shuffle(order)
    installation.send(
        Parcel("kernel-log", cluster, (LOST if number % 10 == 0 else DOUBLE_BIT).encode(), node=f"node-{number:04}")
        for number in order
    )
    when(lambda: out_of_service(installation, cluster) == NODES == len(queue(installation, cluster)))
    found = Burst(queue(installation, cluster))
    installation.application.controls.pause(cluster, paused=False)
    when(lambda: not queue(installation, cluster))
    return told(installation, cluster, found)


def without_pages(installation: Installation) -> None:
    """Page nobody: some thousand pages would take more of the emulator's time than the repairs do."""
    client, bus = installation.stack.client("events"), installation.stack.outputs["EventBusName"]
    for rule in client.list_rules(EventBusName=bus)["Rules"]:
        targets = client.list_targets_by_rule(Rule=rule["Name"], EventBusName=bus)["Targets"]
        pagers = [target["Id"] for target in targets if target["Arn"].endswith("-pager")]
        if pagers:
            client.remove_targets(Rule=rule["Name"], EventBusName=bus, Ids=pagers)


def when(so: Callable[[], bool], seconds: float = 1500.0) -> None:
    """Look now and then until it is so."""
    deadline = time.monotonic() + seconds
    while not so():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(LOOK_EVERY)


def queue(installation: Installation, cluster: str) -> list[QueuedCase]:
    """The waiting cases in the order of the queue."""
    config = installation.directory.cluster(cluster).config
    rows = rows_of(installation.application.ports.table, config, QUEUE)
    return [read_queued(cluster, row) for row in sorted(rows, key=lambda row: str(row["sk"]))]


def out_of_service(installation: Installation, cluster: str) -> int:
    """How many nodes are isolated."""
    rows = rows_of(installation.application.ports.table, installation.directory.cluster(cluster).config, BAD)
    return sum(row["status"] == NodeStatus.QUARANTINED for row in rows)


def told(installation: Installation, cluster: str, burst: Burst) -> Burst:
    """Read the first of each thing that befell a node from the record."""
    entries = installation.entries(cluster).values()
    for event in sorted(entries, key=lambda one: one["metadata"]["recorded_at"]):
        metadata, data = event["metadata"], event["data"]
        node, kind, at = metadata["node"], metadata["event_type"], from_text(metadata["recorded_at"])
        if kind == "Node Fault Detected":
            burst.heard.setdefault(node, at)
        if kind == "Node Status Change" and data["to"] == NodeStatus.QUARANTINED:
            burst.isolated.setdefault(node, at)
        if kind == "Case Status Change" and data["to"] == CaseStatus.IN_PROGRESS:
            burst.admitted.setdefault(node, at)
    return burst


def test_a_thousand_nodes_are_isolated_and_their_cases_admitted(burst: Burst) -> None:
    first = min(burst.heard.values())
    for what, times in (("heard of", burst.heard), ("isolated", burst.isolated), ("admitted", burst.admitted)):
        assert len(times) == NODES
        took = sorted((at - first).total_seconds() for at in times.values())
        print(
            f"\n{NODES} nodes {what}: median {took[NODES // 2]:.1f} s, the last {took[-1]:.1f} s after the first entry"
        )


def test_a_thousand_cases_are_admitted_in_order(burst: Burst) -> None:
    """No case is admitted while another waits that stands before it: all might have been admitted at any time."""
    assert Counter(one.priority for one in burst.waiting) == {0: NODES // 10, 1: NODES - NODES // 10}
    place = {one.key.node: number for number, one in enumerate(burst.waiting)}
    assert len(place) == len(burst.admitted) == NODES
    ticks = [sorted(place[node] for node in tick) for tick in burst.ticks]
    assert max(len(tick) for tick in ticks) <= SLOTS
    assert [number for tick in ticks for number in tick] == [*range(NODES)]
    took = (max(burst.admitted.values()) - min(burst.admitted.values())).total_seconds()
    print(f"\n{NODES} cases admitted in order in {len(ticks)} transactions, the last {took:.0f} s after the first")
