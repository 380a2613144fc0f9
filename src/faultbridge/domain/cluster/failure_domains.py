"""Failure domains of a node: the resources, such as a switch, whose loss affects several nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from faultbridge.dataclass import dataclass
from faultbridge.domain.names import expand_host_list
from faultbridge.domain.nodes import DomainKind

_KINDS = tuple(DomainKind)
DECLARABLE = tuple(kind for kind in DomainKind if kind not in {DomainKind.CLUSTER, DomainKind.INTAKE})
"""The kinds of failure domains that an operator may declare."""


class FailureDomain(NamedTuple):
    """A resource, such as a switch or a rack, whose loss affects several nodes: its kind and its name."""

    kind: DomainKind
    name: str

    @property
    def text(self) -> str:
        """Return the kind and the name of the failure domain as text: `rack r-7`."""
        return f"{self.kind.value} {self.name}"


@dataclass(frozen=True, slots=True)
class DeclaredDomain:
    """A failure domain that an operator declared for a cluster; `nodes` is a Slurm host list."""

    kind: DomainKind
    name: str
    nodes: str


def failure_domains(
    cluster: str,
    node: str,
    domain: str | None,
    domains: Mapping[str, str],
    declared: tuple[DeclaredDomain, ...] = (),
) -> tuple[FailureDomain, ...]:
    """Return the failure domains of a node, narrowest kind first. The last is the cluster.

    `domains` maps kinds of failure domains to names, as the inventory reports them. `domain` is the name of the
    narrowest failure domain. If `domains` does not contain this name, a rack of this name is added. `declared` are the
    failure domains that operators declared for the cluster. A declared domain is added if it lists the node.
    """
    found = _of_inventory(cluster, domain, tuple(domains.items()))
    if not declared:
        return found
    return _ordered({*found, *(FailureDomain(one.kind, one.name) for one in declared if node in _expanded(one.nodes))})


@lru_cache(maxsize=1024)
def _of_inventory(cluster: str, domain: str | None, domains: tuple[tuple[str, str], ...]) -> tuple[FailureDomain, ...]:
    names = dict(domains)
    found = {FailureDomain(kind, names[kind]) for kind in _KINDS if names.get(kind)}
    if domain and domain not in names.values():
        found.add(FailureDomain(DomainKind.RACK, domain))
    return _ordered({*found, FailureDomain(DomainKind.CLUSTER, cluster)})


def _ordered(found: set[FailureDomain]) -> tuple[FailureDomain, ...]:
    return tuple(sorted(found, key=lambda one: (_KINDS.index(one.kind), one.name)))


def is_placed(domains: Collection[FailureDomain]) -> bool:
    """Return whether the failure domains of a node include a domain other than its cluster."""
    return any(one.kind is not DomainKind.CLUSTER for one in domains)


@lru_cache(maxsize=256)
def _expanded(nodes: str) -> frozenset[str]:
    return frozenset(expand_host_list(nodes))
