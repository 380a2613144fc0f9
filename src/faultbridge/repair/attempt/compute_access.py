"""Reach: what acts on machines, in this account or through a role in another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from faultbridge.domain.clusters import ProviderRole
from faultbridge.errors import Misconfigured
from faultbridge.ports import Launcher, Provider, Restarter, Verifier


class ComputeAccess(Protocol):
    """What acts on the machines of one account, and proves them."""

    @property
    def providers(self) -> Mapping[str, Provider]:
        """Reach what replaces instances."""
        ...

    @property
    def launchers(self) -> Mapping[str, Launcher]:
        """Reach what launches successors where no group does."""
        ...

    @property
    def restarters(self) -> Mapping[str, Restarter]:
        """Reach what mends them in place."""
        ...

    @property
    def verifiers(self) -> Mapping[str, Verifier]:
        """Reach what proves them good."""
        ...


def nowhere(role: ProviderRole) -> ComputeAccess:
    """Refuse to reach another account, where an installation knows no way."""
    raise Misconfigured(f"this installation cannot reach other accounts ({role.arn})")
