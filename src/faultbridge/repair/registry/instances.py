"""The result of an inventory sync, and how the descriptions of an instance by two sources are combined."""

from __future__ import annotations

from msgspec import Struct, field

from faultbridge.model.nodes import Instance
from faultbridge.model.values import replace


class SyncResult(Struct):
    """The changes that one inventory sync made in one cluster, and what it found.

    - `nodes`: the number of nodes in the groups that the sync read, before the sync.
    - `added`: names of new nodes.
    - `replaced_externally`: names of nodes that got an instance that another controller launched.
    - `updated`: names of nodes with new metadata.
    - `gone`: names of nodes whose instance does not serve.
    - `retired`: names of nodes that were replaced by other nodes in an update of their group.
    - `waiting`: ids of instances that stay reserved for repairs.
    - `refused`: the reason why an instance was not registered, by instance id.
    - `source_errors`: the errors of sources that could not be read.
    """

    cluster: str
    nodes: int = 0
    added: list[str] = field(default_factory=list)
    replaced_externally: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    source_errors: list[str] = field(default_factory=list)

    @property
    def unchanged(self) -> bool:
        """Return whether all lists and `refused` are empty; `waiting` does not count."""
        changes = (
            self.added,
            self.replaced_externally,
            self.updated,
            self.gone,
            self.retired,
            self.refused,
            self.source_errors,
        )
        return not any(changes)


def combine(provider: Instance, orchestrator: Instance | None) -> Instance:
    """Combine two descriptions: the provider's domains override, the orchestrator's opt-out counts."""
    if orchestrator is None:
        return provider
    return replace(
        provider,
        names=tuple(dict.fromkeys((*provider.names, *orchestrator.names))),
        domains={**orchestrator.domains, **provider.domains},
        opted_out=orchestrator.opted_out,
        opt_out_node=orchestrator.opt_out_node,
    )
