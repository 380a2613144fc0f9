"""A thousand nodes fail at once on the embedded stack: their cases are admitted in order.

The test uses the real functions, slots and state machine. Each repair is as short as possible: the nodes have no group,
so each attempt escalates to an operator before any instance is released.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

import pytest

from faultbridge.local import environment
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.model.times import from_text
from faultbridge.record.queries import queued_cases, unhealthy_nodes
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.services import wire_controls
from tests.e2e.conftest import observe
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.large_clusters import put_policy, register_large_cluster
from tests.e2e.harness.records import DOUBLE_BIT, GPU_LOST
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
"""Seconds that a scheduled minute lasts; sweeps are slow because the emulator scans indexes completely."""

POLL_SECONDS = 10.0
"""Reading a thousand rows more often would slow the emulator down."""


@dataclass
class Burst:
    """The queue of waiting cases, and the times of each node's detection, isolation and admission."""

    waiting: list[QueuedCase]
    detected: dict[str, datetime] = field(default_factory=dict)
    isolated: dict[str, datetime] = field(default_factory=dict)
    admitted: dict[str, datetime] = field(default_factory=dict)

    @property
    def admissions(self) -> list[list[str]]:
        """The admitted nodes of each transaction, in order of the transactions."""
        found: dict[datetime, list[str]] = {}
        for node, at in sorted(self.admitted.items(), key=lambda one: one[1]):
            found.setdefault(at, []).append(node)
        return list(found.values())


@pytest.fixture(scope="module")
def burst(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Burst]:
    """Let a thousand nodes fail while repairs are paused, every tenth fatally; then open forty slots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "MINUTE_SECONDS", MINUTE)
        with private_stack(tmp_path_factory.mktemp("order")) as stack:
            yield fail_all_nodes(observe(stack))


def fail_all_nodes(installation: Installation) -> Burst:
    """Let all nodes fail, wait until all cases are queued, and resume repairs."""
    disable_pages(installation)
    put_policy(installation, POLICY)
    cluster = register_large_cluster(installation, "train-thousand", NODES, grouped=False)
    wire_controls(installation.application).pause(cluster)
    order = [*range(NODES)]
    Random(11).shuffle(order)
    installation.send(
        RawInput(
            "kernel-log", cluster, (GPU_LOST if number % 10 == 0 else DOUBLE_BIT).encode(), node=f"node-{number:04}"
        )
        for number in order
    )
    wait_until(lambda: isolated_nodes(installation, cluster) == NODES == len(queue(installation, cluster)))
    found = Burst(queue(installation, cluster))
    wire_controls(installation.application).resume(cluster, force=True)
    wait_until(lambda: not queue(installation, cluster))
    return with_times(installation, cluster, found)


def disable_pages(installation: Installation) -> None:
    """Disable pages: a thousand pages would take the emulator more time than the repairs."""
    client, bus = installation.stack.client("events"), installation.stack.outputs["EventBusName"]
    for rule in client.list_rules(EventBusName=bus)["Rules"]:
        targets = client.list_targets_by_rule(Rule=rule["Name"], EventBusName=bus)["Targets"]
        pagers = [target["Id"] for target in targets if target["Id"] == "pages"]
        if pagers:
            client.remove_targets(Rule=rule["Name"], EventBusName=bus, Ids=pagers)


def wait_until(condition: Callable[[], bool], seconds: float = 1500.0) -> None:
    """Poll rarely until the condition is true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(POLL_SECONDS)


def queue(installation: Installation, cluster: str) -> list[QueuedCase]:
    """Return the waiting cases in the order of the queue."""
    config = installation.directory.cluster(cluster).config
    queued = queued_cases(installation.application.ports.table, config)
    return sorted(queued, key=lambda one: (one.priority, one.since, one.case))


def isolated_nodes(installation: Installation, cluster: str) -> int:
    """Return the number of isolated nodes."""
    config = installation.directory.cluster(cluster).config
    found = unhealthy_nodes(installation.application.ports.table, config)
    return sum(one.status is NodeStatus.QUARANTINED for one in found)


def with_times(installation: Installation, cluster: str, burst: Burst) -> Burst:
    """Add the first time of each step of a node from its entries."""
    entries = installation.entries(cluster).values()
    for event in sorted(entries, key=lambda one: one["metadata"]["recorded_at"]):
        metadata, data = event["metadata"], event["data"]
        node, kind, at = metadata["node"], metadata["event_type"], from_text(metadata["recorded_at"])
        if kind == "Node Fault Detected":
            burst.detected.setdefault(node, at)
        if kind == "Node Status Change" and data["to"] == NodeStatus.QUARANTINED:
            burst.isolated.setdefault(node, at)
        if kind == "Case Status Change" and data["to"] == CaseStatus.IN_PROGRESS:
            burst.admitted.setdefault(node, at)
    return burst


def test_a_thousand_nodes_are_isolated_and_their_cases_admitted(burst: Burst) -> None:
    first = min(burst.detected.values())
    for what, times in (("detected", burst.detected), ("isolated", burst.isolated), ("admitted", burst.admitted)):
        assert len(times) == NODES
        took = sorted((at - first).total_seconds() for at in times.values())
        print(
            f"\n{NODES} nodes {what}: median {took[NODES // 2]:.1f} s, the last {took[-1]:.1f} s after the first entry"
        )


def test_a_thousand_cases_are_admitted_in_order(burst: Burst) -> None:
    """No case is admitted before an earlier case of the queue, although every case could be admitted."""
    assert Counter(one.priority for one in burst.waiting) == {0: NODES // 10, 1: NODES - NODES // 10}
    position = {one.key.node: number for number, one in enumerate(burst.waiting)}
    assert len(position) == len(burst.admitted) == NODES
    admissions = [sorted(position[node] for node in nodes) for nodes in burst.admissions]
    assert max(len(nodes) for nodes in admissions) <= SLOTS
    assert [number for nodes in admissions for number in nodes] == [*range(NODES)]
    took = (max(burst.admitted.values()) - min(burst.admitted.values())).total_seconds()
    print(f"\n{NODES} cases admitted in order in {len(admissions)} transactions, the last {took:.0f} s after the first")
