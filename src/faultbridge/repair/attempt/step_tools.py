"""The ports that repair steps use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from faultbridge.domain.cluster.config import ProviderRole
from faultbridge.errors import Misconfigured
from faultbridge.ledger.append import Append
from faultbridge.ports import (
    Clock,
    Collector,
    ComputeAccess,
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
