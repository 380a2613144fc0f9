"""Failure domains of a node: what it shares with other nodes, and loses together with them."""

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
    """One failure domain: its kind and its name."""

    kind: DomainKind
    name: str

    @property
    def text(self) -> str:
        """Return kind and name as text: `rack r-7`."""
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
    """Return the failure domains of a node, by kind from narrow to wide; the last one is the cluster.

    `domain` is the narrowest one by name. If no domain of the inventory has this name, it counts as a rack.
    """
    found = _of_inventory(cluster, domain, tuple(domains.items()))
    if not declared:
        return found
    return _ordered({*found, *(FailureDomain(one.kind, one.name) for one in declared if node in _expanded(one.nodes))})


@lru_cache(maxsize=1024)
def _of_inventory(cluster: str, domain: str | None, domains: tuple[tuple[str, str], ...]) -> tuple[FailureDomain, ...]:
    """Return the cluster, and the domains of the inventory; many rows and calls of one sweep have the same ones."""
    names = dict(domains)
    found = {FailureDomain(kind, names[kind]) for kind in _KINDS if names.get(kind)}
    if domain and domain not in names.values():
        found.add(FailureDomain(DomainKind.RACK, domain))
    return _ordered({*found, FailureDomain(DomainKind.CLUSTER, cluster)})


def _ordered(found: set[FailureDomain]) -> tuple[FailureDomain, ...]:
    return tuple(sorted(found, key=lambda one: (_KINDS.index(one.kind), one.name)))


def is_placed(domains: Collection[FailureDomain]) -> bool:
    """Return whether a node has a known failure domain besides its cluster."""
    return any(one.kind is not DomainKind.CLUSTER for one in domains)


@lru_cache(maxsize=256)
def _expanded(nodes: str) -> frozenset[str]:
    return frozenset(expand_host_list(nodes))
