"""Karpenter: which NodeClaim is deleted, what its NodePool permits, and who repairs its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from moto.backends import get_backend

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes.client import ApiRejection
from faultbridge.adapters.kubernetes.karpenter import (
    KarpenterInventory,
    KarpenterProvider,
    NodePools,
    allowed_disruptions,
    gate_in,
    go_duration,
    instance_in,
)
from faultbridge.local.kubernetes.cluster import ApiStatusError, Pod
from faultbridge.model.cluster.config import KARPENTER, CapacitySource, ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import SuccessorNotNeeded
from faultbridge.repair.registry.registration import check_repair_owner
from tests.contracts.aws import aws
from tests.contracts.schedulers import REGION
from tests.karpenter import CONTROLLER, POOL, FakeKarpenter, deployment, karpenter_cluster, name_of
from tests.sim.fakes import START, ManualClock

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
ONE, TWO = {"nodes": "1"}, {"nodes": "2"}


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with aws() as made:
        yield made


@pytest.fixture
def karpenter(clients: Clients) -> Iterator[FakeKarpenter]:
    with karpenter_cluster(clients, ManualClock(START), 4) as made:
        yield made


@pytest.fixture
def provider(clients: Clients, karpenter: FakeKarpenter) -> KarpenterProvider:
    return KarpenterProvider(clients, karpenter.cluster.name, karpenter.cluster.now)


@pytest.fixture
def config(karpenter: FakeKarpenter) -> ClusterConfig:
    return ClusterConfig(
        "train-a",
        provider=KARPENTER,
        orchestrator="eks",
        eks_cluster=karpenter.cluster.name,
        repair_owner=RepairOwner.FAULTBRIDGE,
        mode=Mode.ACT,
    )


def instances(karpenter: FakeKarpenter) -> list[str]:
    return [str(instance_in(one)) for one in karpenter.claims.values()]


def test_a_deletion_names_the_uid_so_a_new_claim_of_the_same_name_is_kept(
    provider: KarpenterProvider, karpenter: FakeKarpenter
) -> None:
    pools = NodePools(provider._connect)
    claim = pools.claim_of(instances(karpenter)[0])
    assert claim is not None
    karpenter.claims[claim["metadata"]["name"]]["metadata"]["uid"] = "another"
    with pytest.raises(ApiRejection, match="UID in precondition"):
        pools.delete(claim)
    assert karpenter.deletions == []


def test_a_repeated_call_deletes_nothing_again_and_returns_when_the_deletion_was_accepted(
    provider: KarpenterProvider, karpenter: FakeKarpenter
) -> None:
    first = instances(karpenter)[0]
    karpenter.cluster.start(Pod("ml", "job-0", name_of(karpenter.cluster, first)))
    answers = [provider.replace(first, "token") for _ in range(3)]
    assert {one.since for one in answers} == {karpenter.cluster.now()}
    assert {one.failure for one in answers} == {ProviderFailure.TIMEOUT}
    assert "ml/job-0" in answers[-1].reason
    assert len(karpenter.deletions) == 1


def test_a_claim_without_finalizers_is_gone_when_the_deletion_is_accepted(
    provider: KarpenterProvider, karpenter: FakeKarpenter, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, first = next(iter(karpenter.claims)), instances(karpenter)[0]

    def delete(deleted: str, _options: object) -> dict[str, Any]:
        del karpenter.claims[deleted]
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

    monkeypatch.setattr(karpenter, "delete_claim", delete)
    answer = provider.replace(first, "token")
    assert (answer.failure, answer.operation) == (ProviderFailure.TIMEOUT, name)
    assert first not in instances(karpenter)
    assert provider.replace(first, "token").failure is ProviderFailure.NOT_FOUND


def test_an_instance_without_a_claim_is_not_terminated(provider: KarpenterProvider) -> None:
    answer = provider.replace("i-0123456789abcdef0", "token")
    assert (answer.failure, answer.since) == (ProviderFailure.NOT_FOUND, None)


def test_nodes_that_are_disrupted_or_not_ready_use_up_the_budget_but_not_the_node_to_replace(
    provider: KarpenterProvider, karpenter: FakeKarpenter
) -> None:
    first, second, third, _ = instances(karpenter)
    not_ready = {"type": "Ready", "status": "Unknown"}
    karpenter.cluster.set_condition(name_of(karpenter.cluster, first), not_ready)
    assert provider.capacity(CapacitySource.ON_DEMAND, first, POOL).free
    karpenter.cluster.set_condition(name_of(karpenter.cluster, second), not_ready)
    refused = provider.capacity(CapacitySource.ON_DEMAND, first, POOL)
    assert not refused.free
    assert "permits 1 of 4 nodes now, and 1 others" in refused.reason
    answer = provider.replace(third, "token")
    assert (answer.failure, karpenter.deletions) == (ProviderFailure.CONFLICT, [])


@pytest.mark.parametrize(
    ("budgets", "total", "allowed"),
    [
        ([{"nodes": "10%"}], 1, 1),
        ([{"nodes": "10%"}], 11, 2),
        ([TWO, ONE], 9, 1),
        ([], 9, 9),
        ([{"nodes": "0", "reasons": ["Drifted"]}, TWO], 9, 2),
        ([{"nodes": "0", "reasons": ["Unhealthy"]}, TWO], 9, 0),
        ([{"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "8h"}], 9, 0),
        ([{"nodes": "0", "schedule": "0 9 * * mon-fri", "duration": "2h30m"}], 9, 9),
        ([{"nodes": "0", "schedule": "@daily", "duration": "12h"}], 9, 9),
        ([{"nodes": "0", "schedule": "no cron", "duration": "1h"}], 9, 0),
    ],
)
def test_the_smallest_budget_that_applies_now_limits_the_disruptions(
    budgets: list[dict[str, Any]], total: int, allowed: int
) -> None:
    assert allowed_disruptions(budgets, total, NOON + timedelta(seconds=30)) == allowed


def test_a_duration_is_read_as_go_writes_it() -> None:
    assert go_duration("1h30m5s") == timedelta(hours=1, minutes=30, seconds=5)
    with pytest.raises(ValueError, match="invalid duration"):
        go_duration("90")


def test_a_pod_that_no_gpu_node_would_run_requires_no_successor(
    provider: KarpenterProvider, karpenter: FakeKarpenter
) -> None:
    karpenter.cluster.start(Pod("ml", "web-0", "", phase="Pending", gpus=0))
    with pytest.raises(SuccessorNotNeeded, match="no pod waits"):
        provider.candidates(POOL, karpenter.cluster.now() + timedelta(seconds=1))
    karpenter.cluster.start(Pod("ml", "job-0", "", phase="Pending"))
    assert provider.candidates(POOL, karpenter.cluster.now() + timedelta(seconds=1)) == ()


GATES = [
    ("NodeRepair=true", True),
    ("ReservedCapacity=true,NodeRepair=false", False),
    ("ReservedCapacity=true", False),
]


@pytest.mark.parametrize(("gates", "expected"), GATES)
def test_the_gate_is_read_from_the_environment_or_the_arguments_of_karpenter(gates: str, *, expected: bool) -> None:
    by_argument: Any = deployment("NodeRepair=true")
    by_argument["spec"]["template"]["spec"]["containers"][0]["args"] = [f"--feature-gates={gates}"]
    assert gate_in(deployment(gates)) is expected
    assert gate_in(by_argument) is expected
    assert gate_in({}) is None


def test_faultbridge_is_refused_as_repair_owner_while_karpenter_repairs_nodes(
    clients: Clients, karpenter: FakeKarpenter, config: ClusterConfig
) -> None:
    inventories = {KARPENTER: KarpenterInventory(clients)}
    karpenter.deployments[CONTROLLER] = deployment("NodeRepair=true")
    with pytest.raises(Rejected, match=r"featureGates\.nodeRepair=false, or use --repair-owner provider"):
        check_repair_owner(inventories, config)
    karpenter.deployments[CONTROLLER] = deployment("NodeRepair=false")
    check_repair_owner(inventories, config)
    with pytest.raises(Rejected, match=r"featureGates\.nodeRepair=true, or use --repair-owner faultbridge"):
        check_repair_owner(inventories, replace(config, repair_owner=RepairOwner.PROVIDER))


def test_a_gate_that_cannot_be_read_must_be_stated_by_the_operator(
    clients: Clients, karpenter: FakeKarpenter, config: ClusterConfig
) -> None:
    inventories = {KARPENTER: KarpenterInventory(clients)}
    with pytest.raises(Misconfigured, match="--karpenter-repairs or --no-karpenter-repairs"):
        check_repair_owner(inventories, config)
    check_repair_owner(inventories, replace(config, karpenter_repairs=False))
    with pytest.raises(Rejected, match="rival_repair"):
        check_repair_owner(inventories, replace(config, karpenter_repairs=True))
    # What the Deployment shows is stronger than a statement.
    karpenter.deployments[CONTROLLER] = deployment("NodeRepair=true")
    with pytest.raises(Rejected, match="rival_repair"):
        check_repair_owner(inventories, replace(config, karpenter_repairs=False))


def test_auto_mode_repairs_its_nodes_itself(clients: Clients, karpenter: FakeKarpenter, config: ClusterConfig) -> None:
    cluster = get_backend("eks")["123456789012"][REGION].clusters[karpenter.cluster.name]
    cluster.compute_config = {"enabled": True, "nodePools": ["general-purpose"]}
    setting = KarpenterInventory(clients).repairs_nodes(config)
    assert setting is not None
    assert (setting.repairs, setting.name) == (True, "EKS Auto Mode")


def test_a_cluster_of_karpenter_is_drained_through_its_orchestrator() -> None:
    with pytest.raises(Rejected, match="orchestrator cannot be used with provider karpenter: none; allowed: eks"):
        ClusterConfig("train-a", provider=KARPENTER).validated()


def test_a_cluster_that_faultbridge_repairs_has_a_verifier(config: ClusterConfig) -> None:
    with pytest.raises(Rejected, match="no_verifier"):
        replace(config, verifier="none").validated()
    assert replace(config, verifier="none", repair_owner=RepairOwner.PROVIDER).validated()


def test_the_manifests_grant_exactly_the_permissions_in_use(
    clients: Clients, karpenter: FakeKarpenter, config: ClusterConfig, provider: KarpenterProvider
) -> None:
    folder = Path(__file__).parents[2] / "infra"

    def granted(*names: str) -> set[tuple[str, str]]:
        files = ("helm/faultbridge/templates/rbac.yaml", "kubernetes/faultbridge-karpenter-rbac.yaml")
        parts = [part for file in files for part in yaml.safe_load_all((folder / file).read_text())]
        rules = [rule for part in parts if part["metadata"]["name"] in names for rule in part.get("rules", ())]
        return {(verb, kind) for rule in rules for kind in rule["resources"] for verb in rule["verbs"]}

    used = karpenter.cluster.permissions_used
    inventory = KarpenterInventory(clients)
    inventory.list_members(config, [POOL])
    with pytest.raises(Misconfigured):
        inventory.repairs_nodes(config)
    of_inventory = granted("faultbridge-inventory", "faultbridge-karpenter-inventory", "faultbridge-karpenter-gates")
    assert used == of_inventory - {("list", "nodes")}
    used.clear()
    first = instances(karpenter)[0]
    provider.capacity(CapacitySource.ON_DEMAND, first, POOL)
    provider.replace(first, "token")
    with pytest.raises(SuccessorNotNeeded):
        provider.candidates(POOL, karpenter.cluster.now())
    assert used == granted("faultbridge-karpenter") | {("list", "nodes"), ("list", "pods")}
    assert used - granted("faultbridge", "faultbridge-karpenter") == set()


def test_a_name_of_a_claim_that_does_not_exist_is_not_found(karpenter: FakeKarpenter) -> None:
    with pytest.raises(ApiStatusError, match="not found"):
        karpenter.delete_claim("gpu-gone", {})
