"""Nodes that AWS ParallelCluster and AWS PCS launch: how they are found, isolated, refused and rebooted."""

from __future__ import annotations

import pytest

from faultbridge.adapters.ec2.request_log import RequestLog
from faultbridge.adapters.slurm.access import MAX_OUTPUT, Output, Scontrol
from faultbridge.adapters.slurm.fleets import (
    ParallelClusterProvider,
    PcsProvider,
    SlurmRestarter,
    TaggedInventory,
    filters_of,
)
from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
from faultbridge.adapters.slurm.rest import Access, Answer, RestClient, SlurmRest
from faultbridge.decode.slurm import SlurmNode
from faultbridge.model.cluster.config import PARALLEL_CLUSTER, PCS, SLURM, ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import RestartState, SuccessorNotNeeded
from faultbridge.record.ports.inventory import GroupMember
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.repair.registry.registration import check_repair_owner
from tests.parallelcluster import POOL, TAGS, ClusterManager, TaggedInstances, records
from tests.sim.fakes import START, FakeFleet, FakeRestarter, FakeTable, ManualClock
from tests.slurm import REST, SlurmInMemory

STATIC, OTHER, DYNAMIC = "queue1-st-gpu-1", "queue1-st-gpu-2", "queue1-dy-gpu-1"
CONFIG = ClusterConfig("train-a", provider=PARALLEL_CLUSTER, orchestrator=SLURM, restarter=SLURM, slurm_rest=REST)


class Fleet:
    """Two static nodes and a dynamic one of a compute resource."""

    def __init__(self) -> None:
        self.clock, self.slurm = ManualClock(START), SlurmInMemory()
        self.ec2 = TaggedInstances(self.clock.now)
        self.manager = ClusterManager(self.slurm, self._launch)
        for name in (STATIC, OTHER, DYNAMIC):
            self.manager.start(name)
        self.provider = ParallelClusterProvider(self.ec2.clients, records(self.ec2, self.slurm))
        self.orchestrator = SlurmOrchestrator(lambda _: self.slurm, self.clock)  # type: ignore[arg-type, return-value]

    def _launch(self) -> tuple[str, str]:
        made = self.ec2.instances[self.ec2.run(TAGS)]
        return made["PrivateIpAddress"], made["PrivateDnsName"]

    def member(self, number: int = 1) -> ClusterNode:
        made = self.ec2.instances[f"i-{number:017x}"]
        hosts = (made["PrivateDnsName"].partition(".")[0], made["PrivateDnsName"])
        return ClusterNode(CONFIG, hosts[0], made["InstanceId"], host_names=hosts, keeps_name=False)

    def set_state(self, state: str, name: str = STATIC) -> None:
        self.slurm.nodes[name] = replace(self.slurm.nodes[name], state=state)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_the_tags_of_a_group_are_those_of_its_compute_resource_or_compute_node_group() -> None:
    assert filters_of("train/queue1/gpu-a") == {
        "tag:parallelcluster:cluster-name": "train",
        "tag:parallelcluster:queue-name": "queue1",
        "tag:parallelcluster:compute-resource-name": "gpu-a",
        "tag:parallelcluster:node-type": "Compute",
    }
    assert filters_of("pcs_abc123") == {"tag:aws:pcs:compute-node-group-id": "pcs_abc123"}
    with pytest.raises(Misconfigured, match="allowed: CLUSTER/QUEUE/COMPUTE-RESOURCE"):
        filters_of("queue1")


def test_a_node_is_found_by_its_address_and_kept_from_work_without_a_drain(fleet: Fleet) -> None:
    assert fleet.orchestrator.cordon(fleet.member(2)).ok
    assert fleet.slurm.nodes[OTHER].state == "IDLE+FAIL"
    assert fleet.slurm.nodes[OTHER].reason == f"faultbridge i-{2:017x}"
    assert fleet.orchestrator.uncordon(fleet.member(2)).ok
    assert fleet.slurm.changes == [("fail", OTHER), ("resume", OTHER)]


@pytest.mark.parametrize("state", ["ALLOCATED+POWERING_UP", "IDLE+POWERED_DOWN", "IDLE+POWERING_DOWN", "DOWN+FAIL"])
def test_a_node_that_starts_or_ends_is_not_isolated_yet_because_its_state_would_not_last(
    fleet: Fleet, state: str
) -> None:
    fleet.set_state(state)
    assert fleet.orchestrator.cordon(fleet.member()).failure is ProviderFailure.NOT_FOUND
    assert fleet.slurm.changes == []


def test_an_address_that_another_host_took_over_leads_to_no_node(fleet: Fleet) -> None:
    fleet.slurm.nodes[STATIC] = replace(fleet.slurm.nodes[STATIC], instance_id="i-0123456789abcdef0")
    assert fleet.orchestrator.cordon(fleet.member()).failure is ProviderFailure.NOT_FOUND


def test_an_operators_drain_stays_also_on_parallelcluster(fleet: Fleet) -> None:
    fleet.slurm.drain(STATIC, "ops")
    assert fleet.orchestrator.cordon(fleet.member()).reason == "already drained: ops"
    assert fleet.orchestrator.uncordon(fleet.member()).reason == "stays drained: ops"


@pytest.mark.parametrize("state", ["IDLE+MAINTENANCE+RESERVED", "IDLE+FAIL+MAINT"])
def test_no_instance_in_a_maintenance_reservation_is_terminated(fleet: Fleet, state: str) -> None:
    fleet.set_state(state)
    answer = fleet.provider.replace(f"i-{1:017x}", "token")
    assert (answer.failure, fleet.ec2.terminated) == (ProviderFailure.CONFLICT, [])
    assert STATIC in fleet.provider.why_no_launch(POOL, f"i-{1:017x}")


def test_a_successor_is_owed_exactly_while_a_static_node_has_no_instance(fleet: Fleet) -> None:
    soon = fleet.clock.advance(60)
    with pytest.raises(SuccessorNotNeeded, match="each static node"):
        fleet.provider.candidates(POOL, soon)
    fleet.provider.replace(f"i-{3:017x}", "token")  # the dynamic one
    with pytest.raises(SuccessorNotNeeded):
        fleet.provider.candidates(POOL, soon)
    fleet.provider.replace(f"i-{1:017x}", "token")
    assert fleet.provider.candidates(POOL, soon) == ()
    fleet.manager.loop({"10.0.0.2"})
    assert [one.instance_id for one in fleet.provider.candidates(POOL, soon)] == [f"i-{4:017x}"]


def test_the_inventory_lists_the_instances_of_a_group_by_their_tags(fleet: Fleet) -> None:
    inventory = TaggedInventory(fleet.ec2.clients)
    fleet.ec2.run({**TAGS, "parallelcluster:node-type": "HeadNode"})
    found = inventory.list_members(CONFIG, [POOL, "train/queue2/gpu"])
    member = GroupMember(f"i-{1:017x}", "us-east-1a", True)
    assert (found[POOL][member.instance_id], len(found[POOL]), found["train/queue2/gpu"]) == (member, 3, {})
    assert inventory.repairs_nodes(CONFIG) is None
    assert inventory.provider_status(CONFIG, [POOL]).groups[POOL].desired == 3


def test_pcs_replaces_nothing_and_refuses_faultbridge_as_the_owner_of_its_repairs(fleet: Fleet) -> None:
    provider = PcsProvider(fleet.ec2.clients)
    answer = provider.replace(f"i-{1:017x}", "token")
    assert (answer.failure, fleet.ec2.terminated) == (ProviderFailure.PERMISSION_DENIED, [])
    assert "no call of AWS PCS replaces or restarts one node" in answer.reason
    config = replace(CONFIG, provider=PCS, mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE)
    inventories = {PCS: TaggedInventory(fleet.ec2.clients)}
    with pytest.raises(Rejected, match=r"no call of AWS PCS replaces or restarts one node.*--repair-owner provider"):
        check_repair_owner(inventories, config)
    check_repair_owner(inventories, replace(config, repair_owner=RepairOwner.PROVIDER))


def test_a_list_of_addresses_that_ssm_cut_off_shows_nothing() -> None:
    with pytest.raises(Misconfigured, match="register slurmrestd too"):
        Scontrol(lambda _: Output(0, "x" * MAX_OUTPUT)).addresses()
    listed = Output(0, "10.0.0.1 queue1-st-gpu-1\nqueue1-dy-gpu-1 queue1-dy-gpu-1\n")
    assert Scontrol(lambda _: listed).addresses()["10.0.0.1"] == STATIC


class Restarts:
    """A restarter of one static node."""

    def __init__(self) -> None:
        self.fleet, self.id = Fleet(), f"i-{1:017x}"
        self.log = RequestLog(FakeTable(), self.fleet.clock)
        self.resets = FakeRestarter(FakeFleet(self.fleet.clock))
        self.restarter = SlurmRestarter(records(self.fleet.ec2, self.fleet.slurm), self.log, self.resets)

    def status(self) -> RestartState:
        return self.restarter.status(RepairAction.REBOOT_NODE, self.id, "token").state


def test_a_reboot_is_asked_for_once_and_done_when_slurm_was_seen_to_reboot_the_node() -> None:
    made = Restarts()
    assert made.status() is RestartState.ABSENT
    for _ in range(2):
        assert made.restarter.restart(RepairAction.REBOOT_NODE, made.id, "token").ok
    assert made.fleet.slurm.changes == [("reboot", STATIC)]
    assert made.fleet.slurm.nodes[STATIC].reason == f"faultbridge {made.id} : reboot issued"
    assert made.status() is RestartState.RUNNING
    made.fleet.set_state("DOWN+FAIL")
    assert made.status() is RestartState.RUNNING
    made.fleet.set_state("IDLE+FAIL")
    assert made.status() is RestartState.DONE


def test_no_node_is_rebooted_in_a_maintenance_reservation_or_without_a_record() -> None:
    made = Restarts()
    made.fleet.set_state("IDLE+MAINTENANCE")
    assert made.restarter.restart(RepairAction.REBOOT_NODE, made.id, "token").failure is ProviderFailure.CONFLICT
    made.fleet.slurm.nodes.clear()
    assert made.restarter.restart(RepairAction.REBOOT_NODE, made.id, "token").failure is ProviderFailure.NOT_FOUND
    assert (made.fleet.slurm.changes, made.status()) == ([], RestartState.ABSENT)


def test_slurmrestd_alone_cannot_reboot_and_says_what_is_missing() -> None:
    rest = SlurmRest(RestClient(lambda: Access(REST, "root", "t"), lambda *_: Answer(500, b"")))
    with pytest.raises(Misconfigured, match="slurmrestd cannot reboot a node; register --slurm-head-node too"):
        rest.reboot(STATIC, "faultbridge")
    made = Restarts()
    made.restarter = SlurmRestarter(records(made.fleet.ec2, made.fleet.slurm), made.log, made.resets)
    made.fleet.slurm.reboot = rest.reboot  # type: ignore[method-assign]
    answer = made.restarter.restart(RepairAction.REBOOT_NODE, made.id, "token")
    assert (answer.failure, made.status()) == (ProviderFailure.PROVIDER_ERROR, RestartState.ABSENT)


def test_gpus_are_reset_on_the_instance_and_not_by_slurm() -> None:
    made = Restarts()
    made.resets.fleet.launch("gpu", made.id)
    assert made.restarter.restart(RepairAction.RESET_GPU, made.id, "token").ok
    assert made.restarter.status(RepairAction.RESET_GPU, made.id, "token").state is not RestartState.ABSENT
    assert made.fleet.slurm.changes == []


def test_a_record_without_an_address_belongs_to_no_instance(fleet: Fleet) -> None:
    fleet.slurm.nodes = {STATIC: SlurmNode(STATIC, "IDLE", host=STATIC, address=STATIC)}
    assert fleet.provider.why_no_launch(POOL, f"i-{1:017x}") == ""
