"""The interfaces that repair steps use, and the access to the instances of each cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import timedelta
from typing import TypeVar

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
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
    VolumeAttachments,
    Volumes,
    Workflow,
)
from faultbridge.rules.rulebook import Rulebook

P = TypeVar("P")


def adapter_named(adapters: Mapping[str, P], kind: str, name: str) -> P:
    """Return the adapter of this name; raises Misconfigured, with the known names, if there is none."""
    if name not in adapters:
        raise Misconfigured(f"unknown {kind}: {name!r}; known: {', '.join(sorted(adapters)) or 'none'}")
    return adapters[name]


def no_other_accounts(config: ClusterConfig) -> ComputeAccess:
    """Raise Misconfigured: this installation cannot access other AWS accounts or HyperPod clusters."""
    asked = config.provider_role.arn if config.provider_role else config.hyperpod_cluster
    raise Misconfigured(f"access to the instances of {config.cluster} is not set up: {asked}")


def without_incidents(_cluster: str) -> None:
    """Do nothing. This is `StepTools.update_incidents` if the installation opens no cluster incidents."""


@dataclass(frozen=True, slots=True)
class StepTools:
    """The interfaces that steps use. A cluster selects its adapters, such as the provider, by name.

    `update_incidents` opens the incidents of a cluster for faults that are recorded but not yet correlated.
    """

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
    volumes: Mapping[str, Volumes] = field(default_factory=dict)
    volume_attachments: Mapping[str, VolumeAttachments] = field(default_factory=dict)
    probe_interval: timedelta = timedelta(seconds=30)
    compute_of_cluster: Callable[[ClusterConfig], ComputeAccess] = no_other_accounts
    update_incidents: Callable[[str], object] = without_incidents

    def compute(self, config: ClusterConfig) -> ComputeAccess:
        """Return the adapters that access a cluster's instances.

        A cluster with its own IAM role or its own HyperPod cluster has adapters of its own. All other clusters share
        the adapters for the account of the installation.
        """
        shared = config.provider_role is None and config.hyperpod_cluster is None
        return self if shared else self.compute_of_cluster(config)
