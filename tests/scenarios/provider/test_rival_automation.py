"""Two automations that repair the same nodes: refused at registration, and paged when the inventory finds it later."""

from __future__ import annotations

import pytest

from faultbridge.adapters.ec2.inventory import repair_setting
from faultbridge.model.cluster.config import ClusterConfig, Mode, ProviderRole, RepairOwner
from faultbridge.model.cluster.state import RepairSetting
from faultbridge.model.enums import ConditionKind, NodeStatus
from faultbridge.model.errors import Rejected
from faultbridge.model.values import replace
from faultbridge.repair.registry.registration import check_repair_owner, owner_conflict
from tests.adapters.builders import EKS, node_group
from tests.hyperpod import NAME
from tests.scenarios.provider.growth import Growth
from tests.scenarios.provider.hyperpod_world import hyperpod_world
from tests.scenarios.provider.provider_conditions import kinds, pages, state
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import FakeInventory

ACTS = ClusterConfig(CLUSTER, eks_cluster=EKS, repair_owner=RepairOwner.FAULTBRIDGE, mode=Mode.ACT)


class EksRepairs(FakeInventory):
    """The inventory of a cluster with one node group that repairs its nodes."""

    def repairs_nodes(self, _config: ClusterConfig) -> RepairSetting | None:
        return repair_setting(EKS, [node_group("gpu", repair=True)])


def test_a_registration_beside_node_auto_repair_is_refused_with_the_command() -> None:
    inventories = {ACTS.provider: EksRepairs(World(nodes=1).fleet)}
    with pytest.raises(Rejected, match="aws eks update-nodegroup-config --cluster-name train") as refused:
        check_repair_owner(inventories, ACTS)
    assert refused.value.reason == "rival_repair"


@pytest.mark.parametrize(
    "allowed",
    [
        replace(ACTS, repair_owner=RepairOwner.PROVIDER),
        replace(ACTS, repair_owner=RepairOwner.OBSERVE),
        replace(ACTS, mode=Mode.OBSERVE),
    ],
)
def test_node_auto_repair_is_no_rival_where_faultbridge_does_not_repair(allowed: ClusterConfig) -> None:
    check_repair_owner({ACTS.provider: EksRepairs(World(nodes=1).fleet)}, allowed)


@pytest.mark.parametrize(
    "before",
    [
        replace(ACTS, provider="hyperpod"),
        replace(ACTS, provider_role=ProviderRole("arn:aws:iam::111122223333:role/provider", "id-of-train")),
        replace(ACTS, hyperpod_cluster=NAME),
        replace(ACTS, eks_cluster=None),
        replace(ACTS, repair_owner=RepairOwner.OBSERVE),
        replace(ACTS, mode=Mode.OBSERVE),
    ],
)
def test_a_cluster_whose_provider_owner_or_mode_changes_is_checked_again(before: ClusterConfig) -> None:
    inventories = {ACTS.provider: EksRepairs(World(nodes=1).fleet)}
    with pytest.raises(Rejected, match="rival_repair"):
        check_repair_owner(inventories, ACTS, before=before)


def test_a_rival_that_is_turned_on_later_is_paged_until_it_is_off_and_repairs_nothing() -> None:
    growth = Growth()
    growth.fakes.provider_repairs = True
    growth.run_inventory()
    assert growth.statuses()[-1]["provider_health"] == "action_required"
    assert str(growth.statuses()[-1]["reason"]).startswith("rival repair: the provider repairs nodes")
    growth.fakes.provider_repairs = False
    growth.run_inventory()
    assert [one["provider_stage"] for one in growth.statuses()[-2:]] == ["begun", "over"]
    assert growth.world.status() is NodeStatus.HEALTHY
    assert growth.world.released_instances() == []


def test_hyperpod_recovery_that_is_turned_on_later_is_found_by_the_inventory() -> None:
    with hyperpod_world(nodes=1) as world:
        world.cluster.node_recovery = "Automatic"
        world.run_inventory()
        assert kinds(world) == [ConditionKind.RIVAL_REPAIR]
        assert f"--cluster-name {NAME} --node-recovery None" in state(world).provider[0].message
        world.cluster.node_recovery = "None"
        world.run_inventory()
        assert pages(world) == ["triggered", "resolved"]


def test_recovery_that_is_turned_off_where_the_provider_repairs_is_found_too() -> None:
    setting = RepairSetting(repairs=False, name="hyperpod", change="run it")
    conflict = owner_conflict(replace(ACTS, repair_owner=RepairOwner.PROVIDER), setting)
    assert conflict is not None
    assert conflict.kind is ConditionKind.NO_PROVIDER_REPAIR
