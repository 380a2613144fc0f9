"""The repair owner of a cluster: refuses two automations that would repair the same nodes, or none at all."""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.domain.cluster.config import HYPERPOD, ClusterConfig, Mode, RepairOwner
from faultbridge.errors import Rejected
from faultbridge.registry.instances import Inventory

RELEVANT = ("provider", "provider_role", "hyperpod_cluster", "repair_owner", "mode")


def check_repair_owner(
    inventories: Mapping[str, Inventory], config: ClusterConfig, before: ClusterConfig | None = None
) -> None:
    """Ask the provider whether it repairs nodes itself, when a registration names who repairs.

    Rejects `rival_repair` when Faultbridge and the provider would both repair, and `no_provider_repair` when the
    provider is named but repairs nothing. Raises Transient or Misconfigured when the provider does not answer: then it
    is unknown who repairs, and the registration does not change.
    """
    unchanged = before is not None and all(getattr(config, name) == getattr(before, name) for name in RELEVANT)
    if unchanged or config.mode is Mode.OBSERVE or config.repair_owner is RepairOwner.OBSERVE:
        return
    inventory = inventories.get(config.provider)
    repairs = inventory.repairs_nodes(config) if inventory else None
    if repairs and config.repair_owner is RepairOwner.FAULTBRIDGE:
        raise Rejected(
            "rival_repair",
            f"{config.provider} repairs nodes of {config.cluster} itself; {_command(config, 'None')}, "
            "or use --repair-owner provider",
        )
    if repairs is False and config.repair_owner is RepairOwner.PROVIDER:
        raise Rejected(
            "no_provider_repair",
            f"{config.provider} does not repair nodes of {config.cluster}; {_command(config, 'Automatic')}, "
            "or use --repair-owner faultbridge",
        )


def _command(config: ClusterConfig, node_recovery: str) -> str:
    """Return the command that changes the provider's setting."""
    if config.provider != HYPERPOD:
        return "change its setting"
    name = config.hyperpod_cluster
    return f"run aws sagemaker update-cluster --cluster-name {name} --node-recovery {node_recovery}"
