"""Replace, list and check nodes that Karpenter launches: a NodeClaim is deleted, and its NodePool may launch another.

docs/karpenter.md names the API versions. Karpenter links no old NodeClaim to a new one, and launches a node only for
pods that wait or for a NodePool with a fixed number of nodes. EKS Auto Mode runs Karpenter outside the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.ec2.instances import launch_order
from faultbridge.adapters.ec2.inventory import Ec2Inventory
from faultbridge.adapters.ec2.launch import Ec2Instances
from faultbridge.adapters.kubernetes.orchestrator import ACCELERATORS, PROVIDER_ID, ZONE, connections, failure_of
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import GroupStatus, ProviderStatus, RepairSetting
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.model.times import to_text
from faultbridge.record.ports.compute import CallResult, LaunchedInstance, SuccessorNotNeeded
from faultbridge.record.ports.inventory import GroupMember

if TYPE_CHECKING:
    from faultbridge.adapters.kubernetes.client import Document, Kubernetes

NODE_CLAIMS, NODE_POOLS = "/apis/karpenter.sh/v1/nodeclaims", "/apis/karpenter.sh/v1/nodepools"
POOL_LABEL = "karpenter.sh/nodepool"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
DEFAULT_BUDGETS = ({"nodes": "10%"},)
REPAIR_REASON = "Unhealthy"
"""The reason of a budget that limits repairs; a budget without reasons limits every disruption."""


class NodePools:
    """Reads and deletes the Karpenter objects of one EKS cluster."""

    def __init__(self, connect: Callable[[], Kubernetes]) -> None:
        self._connect = connect

    @cached_property
    def api(self) -> Kubernetes:
        """Return the client of the cluster's Kubernetes API, which is built on first use."""
        return self._connect()

    def pools(self) -> dict[str, Document]:
        """Return the NodePools by name."""
        return {_name(one): one for one in self.api.documents("listing NodePools", NODE_POOLS)}

    def pool(self, name: str) -> Document:
        """Return a NodePool; raises Misconfigured if there is none of this name."""
        found = self.pools().get(name)
        if found is None:
            raise Misconfigured(f"NodePool not found: {name!r}")
        return found

    def claims(self, pool: str | None = None) -> list[Document]:
        """Return the NodeClaims of a NodePool, or all NodeClaims."""
        selector = {"labelSelector": f"{POOL_LABEL}={pool}"} if pool else {}
        return list(self.api.documents("listing NodeClaims", NODE_CLAIMS, **selector))

    def claim_of(self, instance_id: str) -> Document | None:
        """Return the NodeClaim of an instance, or None if no NodeClaim names it."""
        return next((one for one in self.claims() if instance_in(one) == instance_id), None)

    def delete(self, claim: Document) -> Document:
        """Delete this NodeClaim, and return it as it is then; raises ApiRejection 409 if another one has its name."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": claim["metadata"]["uid"]}}
        path = f"{NODE_CLAIMS}/{quote(_name(claim))}"
        answer = self.api.send(f"deleting NodeClaim {_name(claim)}", "DELETE", path, body)
        return claim if answer.get("kind") == "Status" else answer  # a claim without finalizers is gone immediately

    def unready_nodes(self, pool: str) -> frozenset[str]:
        """Return the names of the nodes of a NodePool whose condition `Ready` is not true."""
        return frozenset(
            str(node.metadata.name)
            for node in self.api.nodes({POOL_LABEL: pool})
            if node.metadata and not _is_ready(node)
        )

    def pending_pods(self, pool: str) -> list[str]:
        """Return the pods for which a NodePool of GPU nodes may launch a node: no node can run them now."""
        pods = self.api.documents("listing pending pods", "/api/v1/pods", fieldSelector="status.phase=Pending")
        return [f"{one['metadata'].get('namespace')}/{_name(one)}" for one in pods if _waits_for(one, pool)]

    def holding_pods(self, claim: Document) -> str:
        """Return a text that names the pods for which the drain of a claim's node waits; empty without pods."""
        from faultbridge.adapters.kubernetes.nodes import describe, running_pods

        node = str(_status(claim).get("nodeName") or "")
        pods = running_pods(self.api, node) if node else []
        return describe(pods) if pods else ""


def _is_ready(node: Any) -> bool:  # noqa: ANN401 - lightkube's Node, which is imported only in functions
    conditions = (node.status.conditions if node.status else None) or ()
    return any(one.type == "Ready" and one.status == "True" for one in conditions)


def _waits_for(pod: Document, pool: str) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    spec = pod.get("spec") or {}
    selected = (spec.get("nodeSelector") or {}).get(POOL_LABEL, pool)
    requests = (((one.get("resources") or {}).get("requests") or {}) for one in spec.get("containers") or ())
    accelerated = any(name.startswith(ACCELERATORS) for request in requests for name in request)
    return selected == pool and accelerated and any(one.get("reason") == "Unschedulable" for one in conditions)


def _name(document: Document) -> str:
    return str(document["metadata"]["name"])


def _status(claim: Document) -> Mapping[str, Any]:
    return claim.get("status") or {}


def _labels(claim: Document) -> Mapping[str, str]:
    return claim["metadata"].get("labels") or {}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def instance_in(claim: Document) -> str | None:
    """Return the id of the instance that a NodeClaim launched, or None before its launch."""
    found = PROVIDER_ID.fullmatch(str(_status(claim).get("providerID") or ""))
    return found[1] if found else None


def deleted_at(claim: Document) -> datetime | None:
    """Return when the deletion of a NodeClaim was accepted, or None."""
    at = claim["metadata"].get("deletionTimestamp")
    return _time(str(at)) if at else None


def is_true(claim: Document, condition: str) -> bool:
    """Return whether a condition of a NodeClaim, such as `Registered`, is true."""
    conditions = _status(claim).get("conditions") or ()
    return any(one.get("type") == condition and one.get("status") == "True" for one in conditions)


class KarpenterProvider(Ec2Instances):
    """A Provider, which replaces instances, for nodes in NodePools of Karpenter; a group is a NodePool."""

    def __init__(self, clients: Clients, eks_cluster: str | None, now: Callable[[], datetime]) -> None:
        super().__init__(clients, frees_slot=True)
        self._eks_cluster, self._now = eks_cluster, now
        self._pools = NodePools(self._connect)

    def _connect(self) -> Kubernetes:
        from faultbridge.adapters.kubernetes.client import eks

        if self._eks_cluster is None:
            raise Misconfigured("no EKS cluster is registered for provider karpenter; set --eks-cluster")
        return eks(self._clients, self._eks_cluster)

    def replace(self, instance_id: str, token: str) -> CallResult:  # noqa: ARG002 - the UID names the claim, so no token is needed
        """Delete the NodeClaim of the instance, once; TIMEOUT with `since` until Karpenter terminates it.

        CONFLICT without a deletion if the disruption budget of the NodePool permits none. After a lost response, the
        next call reads whether the deletion was accepted.
        """
        try:
            return self._replace(instance_id)
        except Transient:
            raise
        except FaultbridgeError as error:
            return CallResult(failure_of(error), str(error))

    def _replace(self, instance_id: str) -> CallResult:
        claim = self._pools.claim_of(instance_id)
        if claim is None:
            return CallResult(ProviderFailure.NOT_FOUND, f"no NodeClaim names the instance {instance_id}")
        if deleted_at(claim) is None:
            refusal = self.why_no_launch(_labels(claim).get(POOL_LABEL, ""), instance_id)
            if refusal:
                return CallResult(ProviderFailure.CONFLICT, refusal)
            claim = self._pools.delete(claim)
        texts = (f"Karpenter drains and terminates NodeClaim {_name(claim)}", self._pools.holding_pods(claim))
        reason = "; ".join(filter(None, texts))
        return CallResult(ProviderFailure.TIMEOUT, reason, operation=_name(claim), since=deleted_at(claim))

    def why_no_launch(self, group: str, instance_id: str) -> str:
        """Return why the NodePool's disruption budgets permit no disruption now; empty if they permit one."""
        budgets = ((self._pools.pool(group).get("spec") or {}).get("disruption") or {}).get("budgets")
        unready = self._pools.unready_nodes(group)
        claims = [one for one in self._pools.claims(group) if is_true(one, "Initialized") or deleted_at(one)]
        disrupted = [
            one
            for one in claims
            if instance_in(one) != instance_id and (deleted_at(one) or _status(one).get("nodeName") in unready)
        ]
        allowed = allowed_disruptions(DEFAULT_BUDGETS if budgets is None else budgets, len(claims), self._now())
        if len(disrupted) < allowed:
            return ""
        return (
            f"the disruption budget of NodePool {group} permits {allowed} of {len(claims)} nodes now, "
            f"and {len(disrupted)} others are disrupted or not ready"
        )

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """Return the instances of the NodePool's claims that were created since `launched_after`, oldest first.

        Raises SuccessorNotNeeded if there is none, and no pod and no fixed size of the NodePool requires one.
        Raises Misconfigured if the NodePool does not exist.
        """
        pool = self._pools.pool(group)
        earliest = launched_after.replace(microsecond=0)
        claims = [one for one in self._pools.claims(group) if not deleted_at(one)]
        new = [one for one in claims if _created(one) >= earliest]
        if not new and (pool.get("spec") or {}).get("replicas") is None:
            # Karpenter launches no further node for the pods that a node which starts will run.
            if any(not is_true(one, "Initialized") for one in claims):
                raise SuccessorNotNeeded(f"a node of NodePool {group} that started before the release takes the pods")
            if not self._pools.pending_pods(group):
                raise SuccessorNotNeeded(f"no pod waits for a node of NodePool {group} since {to_text(earliest)}")
        found = (_launched(one) for one in new if instance_in(one))
        return tuple(sorted((one for one in found if one.running), key=launch_order))


def _created(claim: Document) -> datetime:
    return _time(str(claim["metadata"]["creationTimestamp"]))


def _launched(claim: Document) -> LaunchedInstance:
    return LaunchedInstance(
        instance_id=str(instance_in(claim)),
        launched_at=_created(claim),
        instance_type=_labels(claim).get(INSTANCE_TYPE),
        private_dns=_status(claim).get("nodeName"),
        running=is_true(claim, "Registered"),
    )


def allowed_disruptions(budgets: Collection[Mapping[str, Any]], total: int, now: datetime) -> int:
    """Return how many nodes of a NodePool may be disrupted at once: the smallest budget that applies now."""
    applying = [
        one for one in budgets if REPAIR_REASON in (one.get("reasons") or (REPAIR_REASON,)) and _is_active(one, now)
    ]
    return min((_share(str(one.get("nodes", "10%")), total) for one in applying), default=total)


def _share(text: str, total: int) -> int:
    return math.ceil(total * int(text[:-1]) / 100) if text.endswith("%") else int(text)


def _is_active(budget: Mapping[str, Any], now: datetime) -> bool:
    """Return whether a budget applies now. One whose schedule cannot be read applies at all times."""
    from cronsim import CronSim, CronSimError  # few NodePools have a schedule

    schedule, duration = budget.get("schedule"), budget.get("duration")
    if not schedule or not duration:
        return True
    try:
        opened = next(CronSim(MACROS.get(schedule, schedule), now - go_duration(duration)))
    except (CronSimError, ValueError):
        return True
    return opened <= now


def go_duration(text: str) -> timedelta:
    """Return a duration that Go writes, such as `1h30m`; raises ValueError for another text."""
    units, number, seconds = {"h": 3600, "m": 60, "s": 1}, "", 0
    for character in text:
        if character in units and number:
            seconds, number = seconds + int(number) * units[character], ""
        else:
            number += character
    if number:
        raise ValueError(f"invalid duration: {text!r}")
    return timedelta(seconds=seconds)


# The automation that repairs the nodes of Karpenter: its gate `NodeRepair`, or EKS Auto Mode, which always repairs.

GATE = "NodeRepair"
NAMESPACES = ("kube-system", "karpenter")
UNKNOWN_GATE = (
    "it is unknown whether Karpenter repairs nodes of {cluster}: no Deployment karpenter can be read; apply "
    "infra/kubernetes/faultbridge-karpenter-rbac.yaml, or state the feature gate NodeRepair with "
    "--karpenter-repairs or --no-karpenter-repairs"
)


def gate_in(deployment: Document) -> bool | None:
    """Return whether a controller's Deployment turns the gate `NodeRepair` on; None if it has no Karpenter."""
    containers = ((deployment.get("spec") or {}).get("template") or {}).get("spec", {}).get("containers") or ()
    for container in containers:
        variables = {one.get("name"): str(one.get("value") or "") for one in container.get("env") or ()}
        options = [str(one).partition("=") for one in container.get("args") or ()]
        gates = next((value for name, _, value in options if name == "--feature-gates"), None)
        gates = variables.get("FEATURE_GATES") if gates is None else gates
        if gates is not None:
            return f"{GATE}=true" in gates.replace(" ", "").split(",")
    return None


class KarpenterInventory(Ec2Inventory):
    """An Inventory of the instances of NodePools; EC2 describes the instances."""

    def __init__(self, clients: Clients) -> None:
        super().__init__(clients)
        self._connect = connections(clients)

    def _pools(self, config: ClusterConfig) -> NodePools:
        return NodePools(lambda: self._connect(config))

    def list_members(self, config: ClusterConfig, groups: Collection[str]) -> dict[str, dict[str, GroupMember]]:
        """Return the members by NodePool and instance id, without NodePools that do not exist."""
        pools = self._pools(config)
        existing = pools.pools().keys() & groups
        return {pool: {one.instance_id: one for one in _members(pools.claims(pool))} for pool in sorted(existing)}

    def repairs_nodes(self, config: ClusterConfig) -> RepairSetting | None:
        """Return whether EKS Auto Mode, or Karpenter with its gate `NodeRepair`, repairs nodes.

        Raises Misconfigured if the Deployment of Karpenter cannot be read and no operator stated its setting.
        """
        setting = self._setting(config)
        if setting is None:
            raise Misconfigured(UNKNOWN_GATE.format(cluster=config.cluster))
        return setting

    def _setting(self, config: ClusterConfig) -> RepairSetting | None:
        if self._is_auto_mode(config):
            return RepairSetting(True, "EKS Auto Mode", "use nodes that Auto Mode does not manage")
        gate = self._gate(config)
        if gate is None:
            return None
        value = str(not gate).lower()
        change = f"set its Helm value settings.featureGates.nodeRepair={value}"
        return RepairSetting(gate, f"Karpenter (feature gate {GATE})", change)

    def provider_status(self, config: ClusterConfig, groups: Collection[str]) -> ProviderStatus:
        """Return the size of each existing NodePool, and who repairs its nodes."""
        pools = self._pools(config)
        existing = pools.pools()
        statuses = {name: _group_status(existing[name], pools.claims(name)) for name in existing.keys() & groups}
        return ProviderStatus(groups=statuses, repair=self._setting(config))

    def _is_auto_mode(self, config: ClusterConfig) -> bool:
        with translated(f"reading the EKS cluster {config.eks_cluster}"):
            clients = self._clients.for_role(config.provider_role)
            found = clients.eks.describe_cluster(name=str(config.eks_cluster))["cluster"]
        return bool((found.get("computeConfig") or {}).get("enabled"))

    def _gate(self, config: ClusterConfig) -> bool | None:
        """Return the gate as Karpenter's Deployment shows it, else as an operator stated it."""
        from faultbridge.adapters.kubernetes.client import ApiRejection

        api = self._connect(config)
        for namespace in NAMESPACES:
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments/karpenter"
            try:
                gate = gate_in(api.send("reading the Deployment of Karpenter", "GET", path))
            except ApiRejection as rejection:
                if rejection.status != HTTPStatus.NOT_FOUND:
                    raise
                continue
            except Misconfigured:
                continue
            if gate is not None:
                return gate
        return config.karpenter_repairs


def _members(claims: Collection[Document]) -> Iterator[GroupMember]:
    for claim in claims:
        instance_id = instance_in(claim)
        if instance_id is not None:
            serving = is_true(claim, "Registered") and deleted_at(claim) is None
            yield GroupMember(instance_id, _labels(claim).get(ZONE), serving)


def _group_status(pool: Document, claims: Collection[Document]) -> GroupStatus:
    """Return the size of a NodePool: its fixed size, or as many nodes as it has and does not delete."""
    kept = [one for one in claims if deleted_at(one) is None]
    serving = sum(is_true(one, "Registered") for one in kept)
    desired = (pool.get("spec") or {}).get("replicas")
    wanted = len(kept) if desired is None else int(desired)
    return GroupStatus(wanted, serving >= wanted)
