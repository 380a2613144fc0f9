"""Ports that repair steps use, and the compute access for clusters in another AWS account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from faultbridge.domain.cluster.config import ProviderRole
from faultbridge.errors import Misconfigured
from faultbridge.ledger.append import Append
from faultbridge.ports import (
    Clock,
    Collector,
    Launcher,
    ObjectStore,
    Orchestrator,
    Provider,
    Restarter,
    Table,
    Verifier,
    Workflow,
)
from faultbridge.rules.rulebook import Rulebook


class ComputeAccess(Protocol):
    """The ports that change or verify instances of one AWS account, each by its configured name."""

    @property
    def providers(self) -> Mapping[str, Provider]:
        """Return the providers, which replace instances."""
        ...

    @property
    def launchers(self) -> Mapping[str, Launcher]:
        """Return the launchers, which launch successors for groups that do not launch them."""
        ...

    @property
    def restarters(self) -> Mapping[str, Restarter]:
        """Return the restarters, which reset GPUs and reboot instances."""
        ...

    @property
    def verifiers(self) -> Mapping[str, Verifier]:
        """Return the verifiers, which run diagnostics on instances."""
        ...

    @property
    def collector(self) -> Collector:
        """Return the collector of log bundles."""
        ...


def no_other_accounts(role: ProviderRole) -> ComputeAccess:
    """Raise Misconfigured; for installations without access to other AWS accounts."""
    raise Misconfigured(f"access to another AWS account is not set up: {role.arn}; remove the cluster's provider role")


@dataclass(frozen=True, slots=True)
class StepTools:
    """The ports of the steps. Clusters select providers, orchestrators and verifiers by name."""

    table: Table
    clock: Clock
    append: Append
    workflow: Workflow
    rulebook: Rulebook
    objects: ObjectStore
    providers: Mapping[str, Provider]
    launchers: Mapping[str, Launcher]
    restarters: Mapping[str, Restarter]
    collector: Collector
    orchestrators: Mapping[str, Orchestrator]
    verifiers: Mapping[str, Verifier]
    probe_interval: timedelta = timedelta(seconds=30)
    compute_in_account: Callable[[ProviderRole], ComputeAccess] = no_other_accounts
