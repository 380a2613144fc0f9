"""Event origin: the AWS account and the cluster that a provider's event is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig

ARN = "arn:"


@dataclass(frozen=True, slots=True)
class EventOrigin:
    """The AWS account and the HyperPod cluster that a provider's event names; None for a missing value."""

    account: str | None = None
    hyperpod_cluster: str | None = None
    hyperpod_arn: str | None = None

    def names(self, config: ClusterConfig) -> bool:
        """Return whether the event names this cluster's HyperPod cluster, and no other AWS account."""
        registered = config.hyperpod_cluster
        named = registered is not None and registered in {self.hyperpod_cluster, self.hyperpod_arn}
        return named and self.may_be(config)

    def may_be(self, config: ClusterConfig) -> bool:
        """Return whether the event may be about this registered cluster.

        Returns False only if the event names another HyperPod cluster or another AWS account. The account of a
        registered cluster is known only if its registration has a provider role.
        """
        registered = config.hyperpod_cluster
        named = self.hyperpod_arn if registered and registered.startswith(ARN) else self.hyperpod_cluster
        other_cluster = bool(registered and named) and registered != named
        role = config.provider_role.arn if config.provider_role else None
        other_account = bool(role and self.account) and f":{self.account}:" not in str(role)
        return not other_cluster and not other_account


def origin_of(event: Mapping[str, Any]) -> EventOrigin:
    """Return the account and cluster that an event names in its envelope and its details."""
    parts = tuple(parts_of(event))
    return EventOrigin(_first([event], "account"), _first(parts, "ClusterName"), _first(parts, "ClusterArn"))


def parts_of(event: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of an event that may name a cluster, a group or an instance."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        return
    yield detail
    inner, listed = detail.get("EventDetails"), detail.get("InstanceGroups")
    if isinstance(inner, Mapping):
        yield inner
    if isinstance(listed, list):
        yield from (one for one in listed if isinstance(one, Mapping))


def _first(parts: Iterable[Mapping[str, Any]], name: str) -> str | None:
    return next((str(part[name]) for part in parts if part.get(name)), None)
