"""Rulebook: reads the registration and the policy of a cluster, and returns them as its rules."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct, field

from faultbridge.decide.case_moves import Rules
from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Misconfigured, UnknownName
from faultbridge.model.log import log_cause
from faultbridge.model.policy import Policy
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import load
from faultbridge.model.storage.writes import Item, Key


class ItemReader(Protocol):
    """Reads single items of the table, either directly or through a cache."""

    def get(self, key: Key) -> Item | None:
        """Return the item with this key, or None if it does not exist."""
        ...


class Rulebook(Struct, frozen=True):
    """Returns the rules of clusters; it parses a changed registration again, and reads a policy version once."""

    table: ItemReader
    stack_id: str
    catalog: Callable[[], Catalog]
    default_policy: Callable[[], Policy]
    gpus: Callable[[], Mapping[str, int]] = dict
    _policies: dict[str, Policy] = field(default_factory=dict)
    _configs: dict[str, tuple[Item, ClusterConfig]] = field(default_factory=dict)
    _unreadable: set[str] = field(default_factory=set)

    def config(self, cluster: str) -> ClusterConfig | None:
        """Return the registration of a cluster, or None if the cluster is not registered."""
        found = self.table.get(keys.cluster_config(cluster))
        if not found:
            return None
        parsed = self._configs.get(cluster)
        if parsed is None or (parsed[0] is not found and parsed[0] != found):
            parsed = self._configs[cluster] = found, items.read_config(found)
        return parsed[1]

    def rules(self, config: ClusterConfig) -> Rules:
        """Return the rules of a cluster; one that names a policy version has no shadow policy."""
        pointer = None if config.policy else self.table.get(keys.CURRENT_POLICY)
        policy = self._named(_version(pointer, "version") if pointer else config.policy or None)
        shadow = self._shadow(_version(pointer, "shadow")) if pointer else None
        return Rules(policy, config, self.catalog(), self.stack_id, self.gpus(), shadow)

    def policy(self, config: ClusterConfig) -> Policy:
        """Return the policy that a registration names, or the current one, or else the packaged one."""
        return self._named(config.policy or _version(self.table.get(keys.CURRENT_POLICY), "version"))

    def _named(self, version: str | None) -> Policy:
        default = self.default_policy()
        if version is None or version == default.version:
            return default
        if version not in self._policies:
            self._policies[version] = self._read(version)
        return self._policies[version]

    def _shadow(self, version: str | None) -> Policy | None:
        """Return the shadow policy; an unreadable one is only logged, because no action depends on it."""
        if version is None or version in self._unreadable:
            return None
        try:
            return self._named(version)
        except (Misconfigured, ValueError, TypeError, KeyError) as error:
            log_cause("shadow_policy_unreadable", reason=str(error), level=logging.WARNING, version=version)
            self._unreadable.add(version)
            return None

    def _read(self, version: str) -> Policy:
        found = self.table.get(keys.policy(version))
        if found is None:
            raise Misconfigured(f"policy {version} is not stored; store it with `faultbridge policy put`")
        document = found["policy"]
        if not isinstance(document, dict):
            raise Misconfigured(f"policy {version} is damaged in the table; store it with `faultbridge policy put`")
        return load(Policy, document)


def _version(pointer: Item | None, name: str) -> str | None:
    found = pointer.get(name) if pointer else None
    return str(found) if found else None


def rules_for_order(rulebook: Rulebook, cluster: str) -> Rules:
    """Return the rules of a cluster of an operator's command; raises UnknownName for a mistyped name."""
    config = rulebook.config(cluster)
    if config is None:
        raise UnknownName("cluster", cluster)
    return rulebook.rules(config)


def rules_of(rulebook: Rulebook, cluster: str) -> Rules:
    """Return the rules of a cluster. Raises Misconfigured if the cluster is not registered."""
    config = rulebook.config(cluster)
    if config is None:
        raise Misconfigured(f"cluster {cluster!r} is not registered; add it with `faultbridge cluster add`")
    return rulebook.rules(config)
