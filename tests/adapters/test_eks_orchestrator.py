"""The EKS orchestrator on nodes and pods of a fake Kubernetes API."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from lightkube import Client

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes import nodes
from faultbridge.adapters.kubernetes.client import Kubernetes, eks_access
from faultbridge.adapters.kubernetes.nodes import MAX_EVICTING_SECONDS, evict_all
from faultbridge.adapters.kubernetes.orchestrator import EksVolumeAttachments
from faultbridge.local.kubernetes import api
from faultbridge.local.kubernetes.cluster import ApiStatusError, Budget, Cluster, Pod, RunningInstance, takes_work
from faultbridge.model.cluster.config import ClusterConfig, ProviderRole
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.values import replace
from faultbridge.record.ports.orchestrator import ClusterNode
from tests.contracts.aws import aws
from tests.contracts.schedulers import OnEks, eks_cluster, on_eks
from tests.sim.fakes import START

DEADLINE = START + timedelta(minutes=10)
BETWEEN_CALLS = timedelta(seconds=30)
OTHER = RunningInstance("i-00000000000000008", "ip-10-0-0-8.ec2.internal")
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with aws() as made:
        yield made


@pytest.fixture
def eks(clients: Clients) -> Iterator[OnEks]:
    with on_eks(clients) as made:
        yield made


def node(eks: OnEks) -> Any:
    return eks.cluster.node(OnEks.NODE)


def patched(eks: OnEks, **spec: Any) -> None:
    eks.cluster.patch_node(OnEks.NODE, {"spec": spec})


def test_a_successor_is_found_by_its_instance_under_any_name(eks: OnEks) -> None:
    eks.cluster.join(OTHER)
    successor = replace(eks.member, instance_id=OTHER.instance_id)
    for _ in range(2):
        assert eks.orchestrator.cordon(successor).ok
    assert not takes_work(eks.cluster.node(OTHER.name))
    assert takes_work(node(eks))


def test_a_name_that_another_instance_uses_does_not_match_the_node(eks: OnEks) -> None:
    gone = replace(eks.member, instance_id="i-0000000000000000f")
    assert eks.orchestrator.cordon(gone).failure is ProviderFailure.NOT_FOUND
    assert takes_work(node(eks))


def test_a_cordoned_node_has_the_label_and_keeps_other_taints(eks: OnEks) -> None:
    patched(eks, taints=[NOT_READY])
    assert eks.orchestrator.cordon(eks.member).ok
    assert node(eks)["metadata"]["labels"][nodes.ISOLATED] == "true"
    assert NOT_READY in node(eks)["spec"]["taints"]
    assert len(node(eks)["spec"]["taints"]) == 2
    assert eks.orchestrator.uncordon(eks.member).ok
    assert node(eks)["spec"]["taints"] == [NOT_READY]
    assert nodes.ISOLATED not in node(eks)["metadata"]["labels"]


SOFT = {"key": nodes.ISOLATED, "value": "true", "effect": "PreferNoSchedule"}


def test_a_discouraged_node_has_the_soft_taint_until_it_is_cordoned_or_released(eks: OnEks) -> None:
    patched(eks, taints=[NOT_READY])
    for _ in range(2):
        assert eks.orchestrator.discourage(eks.member).ok
        assert node(eks)["spec"]["taints"] == [NOT_READY, SOFT]
    assert nodes.ISOLATED not in node(eks)["metadata"].get("labels", {})
    assert eks.orchestrator.cordon(eks.member).ok
    assert SOFT not in node(eks)["spec"]["taints"]
    assert eks.orchestrator.discourage(eks.member).ok
    assert SOFT not in node(eks)["spec"]["taints"]
    assert eks.orchestrator.uncordon(eks.member).ok
    assert eks.orchestrator.discourage(eks.member).ok
    assert eks.orchestrator.uncordon(eks.member).ok
    assert node(eks)["spec"]["taints"] == [NOT_READY]


def test_the_release_of_a_discouraged_node_keeps_the_cordon_of_an_operator(eks: OnEks) -> None:
    patched(eks, unschedulable=True)
    assert eks.orchestrator.discourage(eks.member).ok
    assert eks.orchestrator.uncordon(eks.member).ok
    assert node(eks)["spec"] == {"providerID": f"aws:///us-east-1a/{OnEks.INSTANCE}", "unschedulable": True}


def test_an_isolated_node_whose_taint_was_changed_to_the_soft_one_is_isolated_again(eks: OnEks) -> None:
    assert eks.orchestrator.cordon(eks.member).ok
    patched(eks, taints=[SOFT])
    assert eks.orchestrator.cordon(eks.member).ok
    assert [one["effect"] for one in node(eks)["spec"]["taints"]] == ["NoSchedule"]


def test_a_node_that_the_cluster_does_not_have_cannot_be_discouraged(eks: OnEks) -> None:
    assert eks.orchestrator.discourage(eks.stranger).failure is ProviderFailure.NOT_FOUND


def test_a_node_that_was_cordoned_before_stays_cordoned_and_the_reason_says_so(eks: OnEks) -> None:
    patched(eks, unschedulable=True)
    for _ in range(2):
        assert eks.orchestrator.cordon(eks.member).ok
    answer = eks.orchestrator.uncordon(eks.member)
    assert (answer.ok, answer.reason) == (True, "stays cordoned: it was cordoned before the isolation")
    assert node(eks)["spec"] == {"providerID": f"aws:///us-east-1a/{OnEks.INSTANCE}", "unschedulable": True}


def annotations(eks: OnEks) -> dict[str, str]:
    return node(eks)["metadata"].get("annotations") or {}


def test_an_isolated_node_is_kept_from_consolidation_until_its_isolation_ends(eks: OnEks) -> None:
    for _ in range(2):
        assert eks.orchestrator.cordon(eks.member).ok
        assert {name: annotations(eks).get(name) for name in nodes.KEPT} == dict.fromkeys(nodes.KEPT, "true")
    assert eks.orchestrator.uncordon(eks.member).ok
    assert annotations(eks) == {}


def test_the_owners_own_annotation_against_consolidation_stays(eks: OnEks) -> None:
    karpenter = nodes.KEPT[0]
    eks.cluster.patch_node(OnEks.NODE, {"metadata": {"annotations": {karpenter: "true"}}})
    assert eks.orchestrator.cordon(eks.member).ok
    patched(eks, unschedulable=None)
    assert eks.orchestrator.cordon(eks.member).ok  # completes an incomplete cordon
    assert eks.orchestrator.uncordon(eks.member).ok
    assert annotations(eks) == {karpenter: "true"}


def test_an_incomplete_cordon_is_completed(eks: OnEks) -> None:
    assert eks.orchestrator.cordon(eks.member).ok
    patched(eks, unschedulable=None)
    assert eks.orchestrator.cordon(eks.member).ok
    assert node(eks)["spec"]["unschedulable"] is True
    assert eks.orchestrator.uncordon(eks.member).ok
    assert takes_work(node(eks))


def test_a_node_that_registers_with_the_taint_gets_work_only_after_uncordon(eks: OnEks) -> None:
    eks.cluster.register_taints = ({"key": nodes.ISOLATED, "value": "true", "effect": "NoSchedule"},)
    eks.cluster.join(OTHER)
    assert not takes_work(eks.cluster.node(OTHER.name))
    assert eks.orchestrator.uncordon(replace(eks.member, instance_id=OTHER.instance_id)).ok
    assert takes_work(eks.cluster.node(OTHER.name))


@pytest.mark.parametrize(("conflicts", "failure"), [(2, None), (3, ProviderFailure.CONFLICT)])
def test_a_patch_that_conflicts_is_retried_up_to_three_attempts(
    eks: OnEks, monkeypatch: pytest.MonkeyPatch, conflicts: int, failure: ProviderFailure | None
) -> None:
    patch, left = Cluster.patch_node, [conflicts]

    def patch_after_change(cluster: Cluster, name: str, body: dict[str, Any]) -> dict[str, Any]:
        if left[0]:
            left[0] -= 1
            patch(cluster, name, {"metadata": {"labels": {"changed": str(left[0])}}})
        return patch(cluster, name, body)

    monkeypatch.setattr(Cluster, "patch_node", patch_after_change)
    assert eks.orchestrator.cordon(eks.member).failure is failure
    assert "changed" in node(eks)["metadata"]["labels"]


def test_eviction_waits_for_the_disruption_budget(eks: OnEks) -> None:
    eks.cluster.join(OTHER)
    eks.cluster.budgets.append(Budget("ml", "train", {"app": "train"}, min_available=1))
    for number in range(2):
        eks.cluster.start(Pod("ml", f"train-{number}", OnEks.NODE, {"app": "train"}, "StatefulSet", 60))
    assert eks.orchestrator.cordon(eks.member).ok
    held = eks.orchestrator.drain(eks.member, DEADLINE)
    assert held.failure is ProviderFailure.TIMEOUT
    assert held.reason.startswith("2 pods are still there: ml/train-0 ")
    assert held.reason.count("(eviction started)") == 1
    assert held.reason.count("(its disruption budget allows no eviction now)") == 1
    eks.clock.advance(timedelta(seconds=61))
    moved = eks.orchestrator.drain(eks.member, DEADLINE)
    assert moved.reason.startswith("1 pods are still there: ")
    assert "(eviction started)" in moved.reason
    eks.clock.advance(timedelta(seconds=61))
    assert eks.orchestrator.drain(eks.member, DEADLINE).ok
    assert {pod.node for pod in eks.cluster.running()} == {OTHER.name}


def test_daemonset_static_and_finished_pods_are_not_evicted(eks: OnEks) -> None:
    eks.cluster.start(Pod("kube-system", "aws-node-x", OnEks.NODE, owner="DaemonSet"))
    eks.cluster.start(Pod("kube-system", "static", OnEks.NODE, owner=None, mirror=True))
    eks.cluster.start(Pod("ml", "done", OnEks.NODE, phase="Succeeded"))
    eks.cluster.start(Pod("ml", "elsewhere", OTHER.name))
    assert eks.orchestrator.idle(eks.member).ok
    assert eks.orchestrator.drain(eks.member, DEADLINE).ok
    assert len(eks.cluster.running()) == 4


def test_the_check_whether_a_node_is_idle_evicts_no_pod(eks: OnEks) -> None:
    eks.cluster.start(Pod("ml", "job", OnEks.NODE))
    assert eks.orchestrator.idle(eks.member).reason == "1 pods are still there: ml/job (running)"
    assert ("create", "pods/eviction") not in eks.cluster.permissions_used
    assert all(pod.up for pod in eks.cluster.running())


def test_a_node_is_idle_beside_pods_without_a_device_and_a_drain_still_evicts_them(eks: OnEks) -> None:
    eks.cluster.start(Pod("web", "front", OnEks.NODE, gpus=0))
    assert eks.orchestrator.idle(eks.member).ok
    assert all(pod.up for pod in eks.cluster.running())
    assert eks.orchestrator.drain(eks.member, DEADLINE).reason == "1 pods are still there: web/front (eviction started)"
    eks.cluster.start(Pod("ml", "job", OnEks.NODE, gpus=1))
    assert eks.orchestrator.idle(eks.member).reason == "1 pods are still there: ml/job (running)"


PLAIN = {"name": "main", "resources": {"requests": {"cpu": "4", "memory": "8Gi"}}}
GIVES_A_DEVICE: list[tuple[dict[str, Any], bool]] = [
    ({"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}, True),
    ({"containers": [{"name": "main", "resources": {"requests": {"vpc.amazonaws.com/efa": "4"}}}]}, True),
    ({"containers": [PLAIN, {"name": "b", "resources": {"limits": {"aws.amazon.com/neuron": "1"}}}]}, True),
    ({"containers": [PLAIN], "initContainers": [{"name": "b", "resources": {"limits": {"amd.com/gpu": "1"}}}]}, True),
    ({"containers": [PLAIN], "resourceClaims": [{"name": "gpu"}]}, True),
    ({"containers": [PLAIN]}, False),
    ({"containers": [{"name": "main"}]}, False),
]


def test_work_is_a_pod_with_a_device_however_it_asks_for_it(eks: OnEks, monkeypatch: pytest.MonkeyPatch) -> None:
    for spec, works in GIVES_A_DEVICE:
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"namespace": "ml", "name": "one"}}
        document = {**pod, "spec": {"nodeName": OnEks.NODE, **spec}}
        monkeypatch.setattr(api, "_pod", lambda _, shown=document: shown | {"status": {"phase": "Running"}})
        eks.cluster.pods[:] = [Pod("ml", "one", OnEks.NODE)]
        assert eks.orchestrator.idle(eks.member).ok is not works, spec


def test_two_eks_clusters_of_one_name_are_drained_each_through_its_own_api(eks: OnEks) -> None:
    role = ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "agreed")
    member = replace(eks.member, cluster=replace(eks.member.cluster, provider_role=role))
    with eks_cluster(eks.clients.for_role(role), eks.clock, eks.cluster.name, "222233334444") as other:
        other.join(RunningInstance(OnEks.INSTANCE, OnEks.NODE))
        eks.cluster.start(Pod("ml", "here", OnEks.NODE))
        other.start(Pod("ml", "there", OnEks.NODE))
        reasons = [eks.orchestrator.drain(one, DEADLINE).reason for one in (eks.member, member)]
    assert reasons == [f"1 pods are still there: ml/{name} (eviction started)" for name in ("here", "there")]


def test_no_eviction_starts_after_the_deadline(eks: OnEks) -> None:
    eks.cluster.start(Pod("ml", "job", OnEks.NODE))
    answer = eks.orchestrator.drain(eks.member, START)
    assert answer.reason == "1 pods are still there: ml/job (not evicted after the deadline)"
    assert all(pod.up for pod in eks.cluster.running())


def test_a_pod_that_disappears_during_the_drain_is_ignored(eks: OnEks, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ApiStatusError(404, "NotFound", "pods not found")

    eks.cluster.start(Pod("ml", "job", OnEks.NODE))
    monkeypatch.setattr(Cluster, "evict", gone)
    assert eks.orchestrator.drain(eks.member, DEADLINE).ok


def test_a_missing_kubernetes_permission_is_not_retriable(eks: OnEks, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise ApiStatusError(
            403, "Forbidden", 'nodes "x" is forbidden: User "faultbridge" cannot patch resource "nodes"'
        )

    monkeypatch.setattr(Cluster, "patch_node", forbidden)
    answer = eks.orchestrator.cordon(eks.member)
    assert answer.failure is ProviderFailure.PERMISSION_DENIED
    assert "cannot patch" in answer.reason


@pytest.mark.parametrize("named", [None, "no-such-cluster"])
def test_a_missing_eks_cluster_is_not_retriable(eks: OnEks, named: str | None) -> None:
    member = ClusterNode(ClusterConfig("train-a", orchestrator="eks", eks_cluster=named), "node-1", OnEks.INSTANCE)
    answer = eks.orchestrator.cordon(member)
    assert answer.failure is ProviderFailure.PERMISSION_DENIED
    assert not answer.failure.retriable
    assert "EKS cluster" in answer.reason


def test_the_rbac_manifest_grants_exactly_the_permissions_in_use(eks: OnEks) -> None:
    manifest = Path(__file__).parents[2] / "infra" / "helm" / "faultbridge" / "templates" / "rbac.yaml"
    role = next(part for part in yaml.safe_load_all(manifest.read_text()) if part["metadata"]["name"] == "faultbridge")
    granted = {(verb, kind) for rule in role["rules"] for kind in rule["resources"] for verb in rule["verbs"]}
    eks.cluster.start(Pod("ml", "job", OnEks.NODE))
    unknown = replace(eks.member, instance_id="i-0000000000000000f")
    for verb in (eks.orchestrator.cordon, eks.orchestrator.uncordon):
        assert verb(eks.member).ok
    eks.orchestrator.drain(eks.member, DEADLINE)
    eks.orchestrator.cordon(unknown)
    EksVolumeAttachments(eks.clients).remaining(eks.member)
    assert eks.cluster.permissions_used == granted


OVERLOADED = ApiStatusError(429, "TooManyRequests", "too many requests, please try again later")
UNAVAILABLE = ApiStatusError(503, "ServiceUnavailable", "the API server is shutting down")
CHANGED = ApiStatusError(409, "Conflict", "the pod was changed")
TWO_BUDGETS = ApiStatusError(500, "InternalError", "This pod has more than one PodDisruptionBudget")
NO_WEBHOOK = ApiStatusError(500, "InternalError", "failed calling webhook: connection refused")
INVALID = ApiStatusError(422, "Invalid", "the eviction is invalid")
FORBIDDEN = ApiStatusError(
    403, "Forbidden", 'pods "job-0" is forbidden: User "faultbridge" cannot create resource "pods/eviction"'
)
ETCD_FULL = ApiStatusError(500, "InternalError", "etcdserver: mvcc: database space exceeded")
ETCD_SLOW = ApiStatusError(500, "InternalError", "etcdserver: request timed out")


def denied(status: int) -> ApiStatusError:
    """The denial of an admission webhook, which chooses the status."""
    return ApiStatusError(status, "Denied", 'admission webhook "guard.example.com" denied the request: keep this pod')


DENIALS = [denied(status) for status in (400, 401, 403, 404, 409, 429, 500, 503)]


def refuse_evictions(monkeypatch: pytest.MonkeyPatch, *errors: ApiStatusError) -> None:
    """Answer the evictions of the pods `job-0`, `job-1`, ... with these errors; other pods are evicted."""
    evict, refused = Cluster.evict, {f"job-{number}": error for number, error in enumerate(errors)}

    def evict_or_refuse(cluster: Cluster, namespace: str, name: str) -> None:
        if name in refused:
            raise refused[name]
        evict(cluster, namespace, name)

    monkeypatch.setattr(Cluster, "evict", evict_or_refuse)


def start_jobs(eks: OnEks, *names: str) -> None:
    for name in names:
        eks.cluster.start(Pod("ml", name, OnEks.NODE))


@pytest.mark.parametrize(
    "refusal", [OVERLOADED, UNAVAILABLE, CHANGED, TWO_BUDGETS, NO_WEBHOOK, ETCD_FULL, INVALID, FORBIDDEN, *DENIALS]
)
def test_the_failed_eviction_of_one_pod_does_not_stop_the_evictions_of_others(
    eks: OnEks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refusal: ApiStatusError
) -> None:
    start_jobs(eks, "job-0", "train")
    refuse_evictions(monkeypatch, refusal)
    answer = eks.orchestrator.drain(eks.member, DEADLINE)
    assert (answer.failure, answer.inconclusive) == (ProviderFailure.TIMEOUT, False)
    assert "ml/train (eviction started)" in answer.reason
    assert f"ml/job-0 (not evicted: Kubernetes, evicting ml/job-0: {refusal.message})" in answer.reason
    assert [record.pod for record in caplog.records if record.message == "pod_not_evicted"] == ["ml/job-0"]  # type: ignore[attr-defined] # a field of the log line


@pytest.mark.parametrize("refusal", [TWO_BUDGETS, NO_WEBHOOK, INVALID, *DENIALS])
def test_a_pod_that_can_never_be_evicted_is_an_answer_so_the_deadline_of_the_drain_applies(
    eks: OnEks, monkeypatch: pytest.MonkeyPatch, refusal: ApiStatusError
) -> None:
    start_jobs(eks, "job-0")
    refuse_evictions(monkeypatch, refusal)
    answer = eks.orchestrator.drain(eks.member, DEADLINE)
    assert (answer.failure, answer.inconclusive) == (ProviderFailure.TIMEOUT, False)
    assert f"ml/job-0 (not evicted: Kubernetes, evicting ml/job-0: {refusal.message})" in answer.reason


@pytest.mark.parametrize(
    ("error", "inconclusive"), [(httpx2.ReadTimeout("timed out"), False), (httpx2.ConnectError("refused"), True)]
)
def test_an_eviction_that_times_out_is_an_answer_and_a_refused_connection_is_none(
    eks: OnEks, monkeypatch: pytest.MonkeyPatch, error: Exception, *, inconclusive: bool
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    start_jobs(eks, "job-0", "job-1")
    monkeypatch.setattr(Client, "create", fail)
    assert eks.orchestrator.drain(eks.member, DEADLINE).inconclusive is inconclusive


@pytest.mark.parametrize("refusal", [OVERLOADED, UNAVAILABLE, CHANGED, ETCD_FULL, ETCD_SLOW])
def test_an_api_that_decides_about_no_pod_gives_no_answer(
    eks: OnEks, monkeypatch: pytest.MonkeyPatch, refusal: ApiStatusError
) -> None:
    start_jobs(eks, "job-0", "job-1")
    refuse_evictions(monkeypatch, refusal, refusal)
    assert eks.orchestrator.drain(eks.member, DEADLINE).inconclusive


def test_a_missing_permission_to_evict_is_not_retriable(eks: OnEks, monkeypatch: pytest.MonkeyPatch) -> None:
    start_jobs(eks, "job-0", "job-1")
    refuse_evictions(monkeypatch, FORBIDDEN, FORBIDDEN)
    assert eks.orchestrator.drain(eks.member, DEADLINE).failure is ProviderFailure.PERMISSION_DENIED


def evict_slowly(eks: OnEks, monkeypatch: pytest.MonkeyPatch) -> tuple[Kubernetes, list[str]]:
    """A client of the API, and the pods whose evictions it requests: each fails after half of the time of a call."""
    seconds, requested = [0.0], list[str]()

    def fail_slowly(_: Cluster, __: str, name: str) -> None:
        seconds[0] += MAX_EVICTING_SECONDS / 2
        requested.append(name)
        raise NO_WEBHOOK

    monkeypatch.setattr(Cluster, "evict", fail_slowly)
    access = eks_access(eks.clients, str(eks.member.cluster.eks_cluster))
    return Kubernetes(lambda: access, lambda: seconds[0]), requested


def test_evictions_that_take_long_leave_time_for_the_step(eks: OnEks, monkeypatch: pytest.MonkeyPatch) -> None:
    start_jobs(eks, "job-0", "job-1", "job-2")
    kubernetes, requested = evict_slowly(eks, monkeypatch)
    remaining = {one.name: one.reason for one in evict_all(kubernetes, OnEks.NODE, START, DEADLINE)}
    assert list(remaining) == ["ml/job-0", "ml/job-1", "ml/job-2"]
    left = {name.removeprefix("ml/") for name, reason in remaining.items() if reason.startswith("not evicted yet")}
    assert (len(requested), left) == (2, {"job-0", "job-1", "job-2"} - set(requested))


def test_slow_evictions_do_not_delay_the_same_pods_in_the_next_call(
    eks: OnEks, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["job-0", "job-1", "job-2", "job-3"]
    start_jobs(eks, *names)
    kubernetes, requested = evict_slowly(eks, monkeypatch)
    for number in range(2):
        evict_all(kubernetes, OnEks.NODE, START + number * BETWEEN_CALLS, DEADLINE)
    assert len(requested) == 4
    assert sorted(requested) == names
