"""An instance reported by kernel, EC2, EKS and HyperPod under different names is one node with one case.

Every record passes the real ingest with its real sender. The names come from the inventory.
"""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from faultbridge.decide.normalize.trust import EVENT_BUS
from faultbridge.model.nodes import Instance, NodeState
from faultbridge.model.storage import keys
from faultbridge.model.values import replace
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.inventory import wire_inventory
from faultbridge.serve.ingest.record_reader import Delivery
from tests.builders import KEY
from tests.registry.fake_node_listing import FakeNodeListing
from tests.sim.fakes import FakeInventory
from tests.world import GROUP, XID_79, World

COLLECTOR = "AROACOLLECTOR:collector"
SENDER_PROOF = {
    "FAULTBRIDGE_SENDER_PROOF": "required",
    "FAULTBRIDGE_OWN_SENDERS": "AROAINTAKE",
    "FAULTBRIDGE_EVENTS_QUEUE": "arn:events",
}


class Site:
    """An EKS cluster under HyperPod that is in the inventory and accepts only trusted senders."""

    def __init__(self) -> None:
        trusted = {"eks_cluster": "train", "trusted_senders": (COLLECTOR,)}
        world = World(nodes=("a", "neighbor"), settings=SENDER_PROOF, **trusted)
        self.world, self.node_listing = world, FakeNodeListing()
        inventory = FakeInventory(world.ports.fleet)
        world.ports.inventories = {"ec2-auto-scaling": inventory}
        world.ports.node_listing = self.node_listing
        self.run_inventory()

    def node(self) -> NodeState:
        return self.world.node(KEY._replace(node="a"))

    @property
    def instance(self) -> str:
        incarnation = self.node().incarnation
        assert incarnation is not None
        return str(incarnation.instance_id)

    def run_inventory(self) -> None:
        """Run the inventory after the orchestrator has a name for the current instance."""
        instance = Instance(self.instance, (f"hyperpod-{self.instance}", f"{self.instance}.kubernetes.internal"))
        self.node_listing.instances = {self.instance: instance}
        wire_inventory(self.world.app).sync_all()

    def reports(self) -> list[Delivery]:
        """Return one report of each source about the instance, under the name that the source uses."""
        instance, host = self.instance, f"ip-{self.instance[-4:]}"
        own = f"AROANODE:{instance}"
        at = self.world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        unready = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaXID79Error"}
        lost = [unready | {"lastTransitionTime": at}]
        agent = {"level": "info", "ts": at, "msg": "DCGM Policy Violation found ", "condition: ": "XID Error"}
        agent |= {"data: ": {"ErrNum": 79}, "HealthMonitoringAgentDetectionEvent": "HealthEvent"}
        summary = {"HealthStatus": "Unhealthy", "HealthStatusReason": None, "RepairAction": "Replace"}
        message, by = self.world.message, self._by
        return [
            by(message(XID_79, node=host), own),
            by(message(XID_79, node=f"{host}.internal"), COLLECTOR),
            by(
                message(json.dumps(lost), source="eks-node-condition", node=f"{instance}.kubernetes.internal"),
                COLLECTOR,
            ),
            by(message(json.dumps(lost), source="eks-node-condition", node=f"hyperpod-{instance}"), COLLECTOR),
            by(
                message(json.dumps(agent), source="hyperpod-agent-log", node=None, cluster="-", instance_id=instance),
                "AROAINTAKE:faultbridge-intake",
            ),
            self._event(
                "EC2 Instance State-change Notification", "aws.ec2", {"instance-id": instance, "state": "shutting-down"}
            ),
            self._event(
                "SageMaker HyperPod Cluster Node Health Event",
                "aws.sagemaker",
                {"ClusterName": "name-in-hyperpod", "InstanceId": instance, "HealthSummary": summary},
            ),
        ]

    @staticmethod
    def _by(delivery: Delivery, sender: str) -> Delivery:
        return replace(delivery, sender=sender)

    def _event(self, detail_type: str, source: str, detail: dict[str, object]) -> Delivery:
        envelope = {
            "version": "0",
            "id": f"{source}-{self.world.now.timestamp():.0f}",
            "detail-type": detail_type,
            "source": source,
            "time": self.world.now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "resources": [],
            "detail": detail,
        }
        return Delivery(f"bus-{source}", json.dumps(envelope), self.world.now, sender=EVENT_BUS)


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.mark.parametrize("backwards", [False, True])
def test_reports_of_all_sources_in_any_order_give_one_node_with_one_case(site: Site, backwards: bool) -> None:
    reports = site.reports()
    reasons = {}
    for delivery in reversed(reports) if backwards else reports:
        reasons |= wire_ingest(site.world.app).ingest([delivery]).reasons
    assert reasons == {}
    reporters = {source for condition in site.node().active() for source in condition.sources}
    assert reporters == {"kernel-log", "eks-node-condition", "hyperpod-agent-log", "ec2-event", "hyperpod-event"}
    cases = [item for item in site.world.ports.table.items() if item["sk"] == "CASE"]
    assert [case["node"] for case in cases] == ["a"]
    assert list(site.world.node(KEY._replace(node="neighbor")).active()) == []
    nodes = {item["pk"] for item in site.world.ports.table.items() if item["sk"] == keys.node_state(KEY).sk}
    assert len([node for node in nodes if str(node).startswith("NODE#")]) == 2


def test_late_reports_about_a_replaced_instance_change_nothing(site: Site) -> None:
    late = site.reports()
    fleet, old = site.world.ports.fleet, site.instance
    fleet.instances[old] = replace(fleet.instances[old], alive=False)
    site.world.ports.clock.advance(timedelta(minutes=10))
    fleet.launch(GROUP)
    wire_inventory(site.world.app).sync_all()
    site.run_inventory()
    assert site.instance != old
    before = site.node()
    site.world.ports.clock.advance(timedelta(minutes=5))
    for delivery in late:
        wire_ingest(site.world.app).ingest([delivery])
    after = site.node()
    assert (after.status, list(after.active())) == (before.status, [])
    assert (after.case, after.incarnation) == (before.case, before.incarnation)
