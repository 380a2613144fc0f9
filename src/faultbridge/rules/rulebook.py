"""Rulebook: what decisions about a cluster rest on, its registration, its policy and the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from faultbridge.domain.catalog import Catalog
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.policy import Policy
from faultbridge.errors import Misconfigured
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.storage import items, keys
from faultbridge.storage.codec import load
from faultbridge.storage.writes import Item, Key


class Reads(Protocol):
    """Whatever reads an item: the table itself, or lookups that remember."""

    def get(self, key: Key) -> Item | None:
        """Read one item."""
        ...


@dataclass(frozen=True, slots=True)
class Rulebook:
    """Reads registrations each time it is asked, and policies once: a policy version never changes.

    A registration is parsed again only where it is another than the last time.
    """

    table: Reads
    stack_id: str
    catalog: Callable[[], Catalog]
    default_policy: Callable[[], Policy]
    gpus: Callable[[], Mapping[str, int]] = dict
    _policies: dict[str, Policy] = field(default_factory=dict)
    _configs: dict[str, tuple[Item, ClusterConfig]] = field(default_factory=dict)

    def config(self, cluster: str) -> ClusterConfig | None:
        """Return how a cluster is registered, or None where nobody registered it."""
        found = self.table.get(keys.cluster_config(cluster))
        if not found:
            return None
        known = self._configs.get(cluster)
        if known is None or known[0] != found:
            known = self._configs[cluster] = found, items.read_config(found)
        return known[1]

    def rules(self, config: ClusterConfig) -> Rules:
        """Return what decisions about the nodes of a cluster rest on."""
        return Rules(self.policy(config), config, self.catalog().version, self.stack_id, self.gpus())

    def policy(self, config: ClusterConfig) -> Policy:
        """Return the policy that a cluster names, else the stack's current one, else the packaged one."""
        version = config.policy or self._current()
        if version is None:
            return self.default_policy()
        if version not in self._policies:
            self._policies[version] = self._read(version)
        return self._policies[version]

    def _current(self) -> str | None:
        pointer = self.table.get(keys.CURRENT_POLICY)
        return str(pointer["version"]) if pointer else None

    def _read(self, version: str) -> Policy:
        found = self.table.get(keys.policy(version))
        if found is None:
            raise Misconfigured(f"policy {version} is named but not stored (put it with 'faultbridge policy put')")
        document = found["policy"]
        if not isinstance(document, dict):
            raise Misconfigured(f"policy {version} is stored as something else")
        return load(Policy, document)


def rules_of(rulebook: Rulebook, cluster: str) -> Rules:
    """Return what decisions about a cluster rest on; raises Misconfigured where nobody registered it."""
    config = rulebook.config(cluster)
    if config is None:
        raise Misconfigured(f"cluster {cluster!r} is not registered (add it with 'faultbridge cluster add')")
    return rulebook.rules(config)
