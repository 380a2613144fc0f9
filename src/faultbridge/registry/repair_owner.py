"""The repair owner of a cluster: whether Faultbridge or the provider repairs its nodes.

A registration is rejected if both or neither of them would repair the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.domain.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.domain.cluster.provider_status import ConditionKind, ProviderCondition, RepairSetting
from faultbridge.errors import Rejected
from faultbridge.registry.instances import Inventory

RELEVANT = ("provider", "provider_role", "hyperpod_cluster", "eks_cluster", "repair_owner", "mode")


def check_repair_owner(
    inventories: Mapping[str, Inventory], config: ClusterConfig, before: ClusterConfig | None = None
) -> None:
    """Check that the repair owner of a registration does not contradict the provider's own setting.

    `before` is the configuration before the change, or None for a new cluster. Nothing is checked if no field in
    `RELEVANT` changed, or if the mode or the repair owner is `observe`.

    - Raises Rejected `rival_repair` if Faultbridge is the owner, but the provider repairs nodes too.
    - Raises Rejected `no_provider_repair` if the provider is the owner, but repairs no nodes.
    - Raises Transient or Misconfigured if the provider does not respond, because it is then unknown who repairs.
    """
    unchanged = before is not None and all(getattr(config, name) == getattr(before, name) for name in RELEVANT)
    if unchanged or not _names_owner(config):
        return
    inventory = inventories.get(config.provider)
    conflict = owner_conflict(config, inventory.repairs_nodes(config) if inventory else None)
    if conflict is not None:
        other = RepairOwner.PROVIDER if conflict.kind is ConditionKind.RIVAL_REPAIR else RepairOwner.FAULTBRIDGE
        raise Rejected(conflict.kind.value, f"{conflict.message}, or use --repair-owner {other.value}")


def owner_conflict(config: ClusterConfig, setting: RepairSetting | None) -> ProviderCondition | None:
    """Return the conflict between a registration's repair owner and the provider's own setting.

    The result is None if there is no conflict, if the setting is unknown, or if the mode or the repair owner is
    `observe`.
    """
    if setting is None or not _names_owner(config):
        return None
    if setting.repairs and config.repair_owner is RepairOwner.FAULTBRIDGE:
        text = f"{setting.name} repairs nodes of {config.cluster} itself; {setting.change}"
        return ProviderCondition(ConditionKind.RIVAL_REPAIR, text)
    if not setting.repairs and config.repair_owner is RepairOwner.PROVIDER:
        text = f"{setting.name} does not repair nodes of {config.cluster}; {setting.change}"
        return ProviderCondition(ConditionKind.NO_PROVIDER_REPAIR, text)
    return None


def _names_owner(config: ClusterConfig) -> bool:
    return config.mode is not Mode.OBSERVE and config.repair_owner is not RepairOwner.OBSERVE
