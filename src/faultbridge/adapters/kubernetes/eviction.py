"""Evict the pods of a node before it is repaired."""

from __future__ import annotations

import logging
from datetime import datetime
from hashlib import sha256
from http import HTTPStatus

from lightkube import Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod

from faultbridge.adapters.kubernetes.client import (
    BUDGET,
    PAGE,
    ApiRejection,
    InternalFailure,
    Kubernetes,
    ReadTimedOut,
    Unauthorized,
)
from faultbridge.dataclass import dataclass
from faultbridge.errors import FaultbridgeError
from faultbridge.log import log_cause

DAEMON_SET = "DaemonSet"
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod, which the kubelet runs from a local file; the API cannot evict it."""

FINISHED = frozenset({"Succeeded", "Failed"})
MAX_LISTED = 5
MAX_EVICTING_SECONDS = 20.0
"""After this time, a call starts no further eviction: an admission webhook can delay each one by its time-out."""

FAILURES_OF_ONE_POD = ("more than one PodDisruptionBudget", "failed calling webhook")
"""Texts of an HTTP 500 that is about one pod. Any other 500 is a failure of the API itself, such as one of etcd."""

DENIAL = ("admission webhook", "denied the request")
"""The texts in each denial by an admission webhook. The webhook chooses the HTTP status of the denial."""


@dataclass(frozen=True, slots=True)
class RemainingPod:
    """A pod that still runs on the node, and the reason why it still runs."""

    name: str
    reason: str

    def __str__(self) -> str:
        """Return the name of the pod and the reason as text."""
        return f"{self.name} ({self.reason})"


@dataclass(slots=True)
class _Evictions:
    """Starts the evictions of one call of `evict_all`; of all errors, only Unauthorized stops them.

    `until` is the monotonic time, in seconds, after which no further eviction starts. `answered` is True if at least
    one eviction was accepted, or failed because of a decision about its pod. `failure` is the last other error.
    """

    kubernetes: Kubernetes
    until: float
    answered: bool = False
    failure: FaultbridgeError | None = None

    def evict(self, metadata: ObjectMeta) -> str:
        """Evict one pod; returns the reason why it still runs, or "" if it is already gone.

        Raises Unauthorized if the API does not accept the token.
        """
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
        for name in sorted(leaving, key=lambda name: _position(name, now))
    }
    evictions.raise_if_unanswered()
    return [RemainingPod(name, reasons[name]) for name in leaving if reasons[name]]


def running_pods(kubernetes: Kubernetes, node: str) -> list[RemainingPod]:
    """Return the pods of a node for which a drain would have to wait. No pod is evicted."""
    leaving = _leaving(kubernetes, node)
    return [RemainingPod(name, "terminating" if one.deletionTimestamp else "running") for name, one in leaving.items()]


def describe(pods: list[RemainingPod]) -> str:
    """Return one line of text that names the first five pods that still run, and counts the others."""
    names = ", ".join(map(str, pods[:MAX_LISTED]))
    more = f" and {len(pods) - MAX_LISTED} more" if len(pods) > MAX_LISTED else ""
    return f"{len(pods)} pods are still there: {names}{more}"


def _leaving(kubernetes: Kubernetes, node: str) -> dict[str, ObjectMeta]:
    """Return the pods of a node for which a drain has to wait, by namespace and name."""

    def read(client: Client) -> tuple[Pod, ...]:
        return tuple(client.list(Pod, namespace="*", fields={"spec.nodeName": node}, chunk_size=PAGE))

    pods = kubernetes.call(f"listing the pods of {node}", read)
    return {_name_of(one): one for pod in pods if (one := pod.metadata) is not None and _must_leave(pod, one)}


def _position(name: str, now: datetime) -> bytes:
    """Return a sort key of a pod that changes with `now`, so that each call evicts in another order."""
    return sha256(f"{now.isoformat()} {name}".encode()).digest()


def _reason_to_remain(evictions: _Evictions, metadata: ObjectMeta, *, late: bool) -> str:
    if metadata.deletionTimestamp is not None:
        return "terminating"
    return "not evicted after the deadline" if late else evictions.evict(metadata)


def _must_leave(pod: Pod, metadata: ObjectMeta) -> bool:
    """Return whether a drain must wait until this pod has left the node.

    A drain does not wait for finished pods, nor for the pods of DaemonSets and static pods, which would run again.
    """
    if any(owner.controller and owner.kind == DAEMON_SET for owner in metadata.ownerReferences or ()):
        return False
    finished = pod.status is not None and pod.status.phase in FINISHED
    return not finished and MIRROR not in (metadata.annotations or {})


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
