"""Find and patch the Kubernetes node that runs on an instance."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from lightkube import Client
from lightkube.models.core_v1 import Taint
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node, Pod
from lightkube.types import PatchType
from msgspec import Struct, field

from faultbridge.adapters.kubernetes.client import (
    BUDGET,
    PAGE,
    ApiRejection,
    InternalFailure,
    Kubernetes,
    ReadTimedOut,
    Unauthorized,
)
from faultbridge.adapters.kubernetes.orchestrator import ACCELERATORS
from faultbridge.model.errors import FaultbridgeError
from faultbridge.model.log import log_cause
from faultbridge.model.retry import Retry
from faultbridge.record.ports.orchestrator import ClusterNode

# An isolated node is unschedulable, has a taint that keeps pods away, and has a label by which operators find it. A
# node that was already cordoned before the isolation stays cordoned after the release.
#
# A node that waits for its isolation has the taint with the effect `PreferNoSchedule`. The isolation replaces this
# taint, and the release removes it.

ISOLATED = "faultbridge/isolated"
"""Key of the taint and the label; a node that registers with the taint gets no work before verification."""

CORDONED_BEFORE = "faultbridge/cordoned-before"
"""Annotation of a node that was already cordoned when Faultbridge isolated it."""

KEPT = ("karpenter.sh/do-not-disrupt", "cluster-autoscaler.kubernetes.io/scale-down-disabled")
"""Annotations that keep Karpenter and the cluster autoscaler from removing an empty node before its diagnosis."""

KEPT_BY_US = "faultbridge/kept"
"""Annotation of an isolated node that lists those of `KEPT` that its isolation added."""

EFFECT, PREFERENCE = "NoSchedule", "PreferNoSchedule"
TRUE = "true"

Patch = dict[str, Any]
"""A JSON merge patch with the resource version of the node. The API rejects the patch if the node has changed."""


def isolation_patch(node: Node) -> Patch | None:
    """Return the patch that isolates a node, or None if the node is already isolated."""
    labels, taints = _labels(node), _taints(node)
    labeled = labels.get(ISOLATED) == TRUE
    if labeled and _unschedulable(node) and any(_is_ours(taint) and taint.effect != PREFERENCE for taint in taints):
        return None
    before = _annotations(node)
    recorded = before.get(CORDONED_BEFORE) if labeled else None
    kept = [one for one in KEPT if one not in before or one in _kept_by_us(node)]
    cordoned_before = TRUE if _unschedulable(node) and not labeled else recorded
    other_taints = [taint for taint in taints if not _is_ours(taint)]
    return _patch(
        node,
        labels={ISOLATED: TRUE},
        annotations={
            CORDONED_BEFORE: cordoned_before,
            KEPT_BY_US: ",".join(kept) or None,
            **dict.fromkeys(kept, TRUE),
        },
        spec={
            "unschedulable": True,
            "taints": _to_json([*other_taints, Taint(key=ISOLATED, value=TRUE, effect=EFFECT)]),
        },
    )


def preference_patch(node: Node) -> Patch | None:
    """Return the patch that adds `PreferNoSchedule`; None if the node has Faultbridge's taint or label."""
    taints = _taints(node)
    if ISOLATED in _labels(node) or any(map(_is_ours, taints)):
        return None
    soft = Taint(key=ISOLATED, value=TRUE, effect=PREFERENCE)
    return _patch(node, labels={}, annotations={}, spec={"taints": _to_json([*taints, soft])})


def release_patch(node: Node) -> Patch | None:
    """Return the patch that removes Faultbridge's label, taints and cordon; None if there are none."""
    taints = _taints(node)
    labeled = ISOLATED in _labels(node)
    if not labeled and not any(map(_is_ours, taints)):
        return None
    spec: dict[str, Any] = {"taints": _to_json([taint for taint in taints if not _is_ours(taint)]) or None}
    if labeled and not _annotations(node).get(CORDONED_BEFORE):
        spec["unschedulable"] = None
    removed = dict.fromkeys((CORDONED_BEFORE, KEPT_BY_US, *_kept_by_us(node)))
    return _patch(node, labels={ISOLATED: None}, annotations=removed, spec=spec)


def _kept_by_us(node: Node) -> frozenset[str]:
    return frozenset(KEPT).intersection(_annotations(node).get(KEPT_BY_US, "").split(","))


def stays_cordoned(node: Node) -> bool:
    """Return whether the node was cordoned before its isolation; for another node, whether it is cordoned."""
    if ISOLATED in _labels(node):
        return _annotations(node).get(CORDONED_BEFORE) == TRUE
    return _unschedulable(node)


def _patch(node: Node, *, labels: Patch, annotations: Patch, spec: Patch) -> Patch:
    """Return a merge patch that the API rejects if the node has changed since it was read."""
    version = node.metadata.resourceVersion if node.metadata else None
    return {"metadata": {"resourceVersion": version, "labels": labels, "annotations": annotations}, "spec": spec}


def _is_ours(taint: Taint) -> bool:
    return taint.key == ISOLATED


def _to_json(taints: list[Taint]) -> list[Patch]:
    return [taint.to_dict() for taint in taints]


def _unschedulable(node: Node) -> bool:
    return bool(node.spec and node.spec.unschedulable)


def _taints(node: Node) -> list[Taint]:
    return list(node.spec.taints or ()) if node.spec else []


def _labels(node: Node) -> dict[str, str]:
    return dict(node.metadata.labels or {}) if node.metadata else {}


def _annotations(node: Node) -> dict[str, str]:
    return dict(node.metadata.annotations or {}) if node.metadata else {}


PATCH_RETRY = Retry(3, first_seconds=0)
"""Attempts to read and patch a node that other clients change at the same time."""


class NodeClient(Struct, frozen=True):
    """Finds and patches the Kubernetes nodes of one cluster.

    - If a `ClusterNode` has an instance id, the `spec.providerID` of the Kubernetes node, or on HyperPod its name, must
      end with this id. A host name is not sufficient, because another instance may have the same host name.
    - If a `ClusterNode` has no instance id, its `node` must be the name of the Kubernetes node.
    - Kubernetes nodes with probable names are read first, to avoid a list of all nodes.
    """

    api: Kubernetes
    names: dict[str, str] = field(default_factory=dict)

    def find(self, node: ClusterNode) -> Node | None:
        """Return the Kubernetes node of an instance, or without an instance id the node named `node.node`."""
        for name in dict.fromkeys(self._likely_names(node)):
            found = self._read(name)
            if found is not None and _matches(found, node):
                return self._remember(node, found)
        if node.instance_id is None:
            return None
        return next((self._remember(node, found) for found in self.api.nodes() if _matches(found, node)), None)

    def patch(self, node: ClusterNode, make_patch: Callable[[Node], Patch | None]) -> Node:
        """Patch a Kubernetes node unless `make_patch` returns None; returns the node as it was before.

        If another client changed the node meanwhile, it is read and patched again, at most three times; then
        ApiRejection 409 is raised. Without the node, ApiRejection 404 is raised.
        """

        def read_and_patch() -> Node:
            found = self.find(node)
            if found is None:
                text = f"the cluster has no node with instance {node.instance_id}"
                raise ApiRejection(HTTPStatus.NOT_FOUND, text)
            patch = make_patch(found)
            if patch is not None:
                self._patch(name_of(found), patch)
            return found

        return PATCH_RETRY(read_and_patch, retry_on=ApiRejection, retry_if=_is_conflict)

    def _patch(self, name: str, patch: Patch) -> None:
        def apply(client: Client) -> None:
            client.patch(Node, name, patch, patch_type=PatchType.MERGE)

        self.api.call(f"patching node {name}", apply)

    def _read(self, name: str) -> Node | None:
        try:
            return self.api.call(f"reading node {name}", lambda client: client.get(Node, name))
        except ApiRejection as rejection:
            if rejection.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _likely_names(self, node: ClusterNode) -> Iterator[str]:
        if node.instance_id:
            if node.instance_id in self.names:
                yield self.names[node.instance_id]
            if node.cluster.hyperpod_cluster:
                yield f"hyperpod-{node.instance_id}"
        yield from node.names

    def _remember(self, node: ClusterNode, found: Node) -> Node:
        if node.instance_id:
            self.names[node.instance_id] = name_of(found)
        return found


def name_of(node: Node) -> str:
    """Return the name of a Kubernetes node; empty if the node has no metadata."""
    return str(node.metadata.name) if node.metadata else ""


def _is_conflict(error: Exception) -> bool:
    return isinstance(error, ApiRejection) and error.status == HTTPStatus.CONFLICT


def _matches(found: Node, node: ClusterNode) -> bool:
    if node.instance_id is None:
        return name_of(found) == node.node
    provider_id = (found.spec.providerID if found.spec else None) or ""
    return provider_id.endswith(f"/{node.instance_id}") or name_of(found) == f"hyperpod-{node.instance_id}"


DAEMON_SET = "DaemonSet"
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod, which the kubelet runs from a local file; the API cannot evict it."""

FINISHED = frozenset({"Succeeded", "Failed"})
DEVICES = (*ACCELERATORS, "vpc.amazonaws.com/efa")
"""Prefixes of the resources of pods whose work a drain would end."""

MAX_LISTED = 5
MAX_EVICTING_SECONDS = 20.0
"""After this time, a call starts no further eviction: an admission webhook can delay each one by its time-out."""

FAILURES_OF_ONE_POD = ("more than one PodDisruptionBudget", "failed calling webhook")
"""Texts of an HTTP 500 that is about one pod. Any other 500 is a failure of the API itself, such as one of etcd."""

DENIAL = ("admission webhook", "denied the request")
"""The texts in each denial by an admission webhook. The webhook chooses the HTTP status of the denial."""


class RemainingPod(Struct, frozen=True):
    """A pod that still runs on the node, and the reason why it still runs."""

    name: str
    reason: str

    def __str__(self) -> str:
        """Return the name of the pod and the reason as text."""
        return f"{self.name} ({self.reason})"


class _Evictions(Struct):
    """Starts the evictions of one call of `evict_all`; of all errors, only Unauthorized stops them.

    `until` is the monotonic time, in seconds, after which no further eviction starts. `answered` is True if at least
    one eviction was accepted, or failed because of a decision about its pod. `failure` is the last other error.
    """

    kubernetes: Kubernetes
    until: float
    answered: bool = False
    failure: FaultbridgeError | None = None

    def evict(self, metadata: ObjectMeta) -> str:
        """Evict one pod; returns why it still runs, or "" if it is gone. Raises only Unauthorized."""
        if self.kubernetes.monotonic() >= self.until:
            return "not evicted yet: the evictions of other pods took too long"
        try:
            self._request(metadata)
        except FaultbridgeError as error:
            if isinstance(error, Unauthorized) and not _is_denial(error):
                raise
            return self._reason(metadata, error)
        self.answered = True
        return "eviction started"

    def raise_if_unanswered(self) -> None:
        if self.failure is not None and not self.answered:
            raise self.failure

    def _request(self, metadata: ObjectMeta) -> None:
        request = Pod.Eviction(metadata=ObjectMeta(name=metadata.name, namespace=metadata.namespace))

        def create(client: Client) -> None:
            client.create(request, str(metadata.name), namespace=metadata.namespace)

        self.kubernetes.call(f"evicting {_name_of(metadata)}", create)

    def _reason(self, metadata: ObjectMeta, error: FaultbridgeError) -> str:
        if _is_decision(error):
            self.answered = True
        else:
            self.failure = error
        if _is_gone(error):
            return ""
        if isinstance(error, ApiRejection) and BUDGET in error.reasons:
            return "its disruption budget allows no eviction now"
        log_cause("pod_not_evicted", reason=str(error), level=logging.WARNING, pod=_name_of(metadata))
        return f"not evicted: {error}"


def evict_all(kubernetes: Kubernetes, node: str, now: datetime, deadline: datetime) -> list[RemainingPod]:
    """Evict the pods of a node within their disruption budgets; returns the pods that still run.

    - DaemonSet pods, static pods and finished pods are ignored.
    - If `now` is not before `deadline`, no pod is evicted.
    - A call starts no eviction after 20 seconds. The order of the evictions depends on `now`, so that slow evictions do
      not delay the same pods in each call.
    - If no eviction was accepted or refused, the last error is raised. If the API does not accept the token,
      Unauthorized is raised. Any other error of an eviction is only a reason in the result.
    """
    leaving = _leaving(kubernetes, node)
    evictions = _Evictions(kubernetes, kubernetes.monotonic() + MAX_EVICTING_SECONDS)
    reasons = {
        name: _reason_to_remain(evictions, leaving[name], late=now >= deadline)
        # Each call evicts in another order.
        for name in sorted(leaving, key=lambda name: sha256(f"{now.isoformat()} {name}".encode()).digest())
    }
    evictions.raise_if_unanswered()
    return [RemainingPod(name, reasons[name]) for name in leaving if reasons[name]]


def running_pods(kubernetes: Kubernetes, node: str, *, working: bool = False) -> list[RemainingPod]:
    """Return the pods of a node for which a drain would have to wait. No pod is evicted.

    With `working`, return only those that request an accelerator, EFA or a device claim.
    """
    leaving = _leaving(kubernetes, node, _requests_device if working else None)
    return [RemainingPod(name, "terminating" if one.deletionTimestamp else "running") for name, one in leaving.items()]


def describe(pods: list[RemainingPod]) -> str:
    """Return one line of text that names the first five pods that still run, and counts the others."""
    names = ", ".join(map(str, pods[:MAX_LISTED]))
    more = f" and {len(pods) - MAX_LISTED} more" if len(pods) > MAX_LISTED else ""
    return f"{len(pods)} pods are still there: {names}{more}"


def _leaving(kubernetes: Kubernetes, node: str, counts: Callable[[Pod], bool] | None = None) -> dict[str, ObjectMeta]:
    """Return the pods of a node for which a drain has to wait and that count, by namespace and name."""

    def read(client: Client) -> tuple[Pod, ...]:
        return tuple(client.list(Pod, namespace="*", fields={"spec.nodeName": node}, chunk_size=PAGE))

    pods = kubernetes.call(f"listing the pods of {node}", read)
    found = ((pod, pod.metadata) for pod in pods if counts is None or counts(pod))
    return {_name_of(one): one for pod, one in found if one is not None and _must_leave(pod, one)}


def _reason_to_remain(evictions: _Evictions, metadata: ObjectMeta, *, late: bool) -> str:
    if metadata.deletionTimestamp is not None:
        return "terminating"
    return "not evicted after the deadline" if late else evictions.evict(metadata)


def _must_leave(pod: Pod, metadata: ObjectMeta) -> bool:
    """Return whether a drain waits for this pod: not if finished, nor of a DaemonSet, nor static."""
    if any(owner.controller and owner.kind == DAEMON_SET for owner in metadata.ownerReferences or ()):
        return False
    finished = pod.status is not None and pod.status.phase in FINISHED
    return not finished and MIRROR not in (metadata.annotations or {})


def _requests_device(pod: Pod) -> bool:
    """Return whether a pod has a device claim, or a container that requests an accelerator or EFA."""
    if pod.spec is None:
        return False
    containers = (*(pod.spec.containers or ()), *(pod.spec.initContainers or ()))
    stated = [one.resources for one in containers if one.resources is not None]
    names = {name for one in stated for name in (*(one.requests or ()), *(one.limits or ()))}
    return bool(pod.spec.resourceClaims) or any(name.startswith(DEVICES) for name in names)


def _is_decision(error: FaultbridgeError) -> bool:
    """Return whether the error shows a decision about the pod that is evicted.

    These errors show a decision:

    - a rejection by the API, such as HTTP 429 because of a disruption budget, or an HTTP 500 about this pod only
    - a denial by an admission webhook
    - a response that does not arrive in time: the API has just listed the pods, so a webhook probably delays the
      response

    A missing connection, overload, a conflict, a failure of the whole API and a missing permission show no decision.
    """
    if isinstance(error, InternalFailure):
        return _is_denial(error) or any(text in str(error) for text in FAILURES_OF_ONE_POD)
    if isinstance(error, ApiRejection) and error.status != HTTPStatus.CONFLICT:
        return True
    return isinstance(error, ReadTimedOut) or _is_denial(error)


def _is_denial(error: FaultbridgeError) -> bool:
    return all(text in str(error) for text in DENIAL)


def _is_gone(error: FaultbridgeError) -> bool:
    return isinstance(error, ApiRejection) and error.status == HTTPStatus.NOT_FOUND and not _is_denial(error)


def _name_of(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}"
