"""Node lookup: finds the node of each record and checks that its sender may report for that node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.nodes import Alias, AliasRow
from faultbridge.errors import Rejected
from faultbridge.ingest.caches import ItemCache
from faultbridge.ingest.record_reader import RecordPart
from faultbridge.pipeline.normalize.resolve import aliases_of, resolve
from faultbridge.pipeline.normalize.trust import Trust
from faultbridge.rules.rulebook import Rulebook
from faultbridge.storage import items, keys

ACCOUNT_WIDE_SOURCES = frozenset({"ec2-event"})
"""Sources that report every instance of an AWS account. Records of unregistered instances are ignored."""

FoundNode = tuple[ClusterConfig, AliasRow]


@dataclass(frozen=True, slots=True)
class NodeLookup:
    """Finds the nodes of many records. Their aliases and registrations are read together."""

    item_cache: ItemCache
    rulebook: Rulebook
    trust: Trust

    def __call__(self, parts: Sequence[RecordPart]) -> Iterator[tuple[RecordPart, FoundNode | Rejected | None]]:
        """Yield each part of a record with its node, with the reason of its rejection, or with None.

        A part contains the observations about one node. None means that the part is ignored. A part is ignored if it
        has neither a cluster nor observations, or if a source of a whole AWS account reports an unknown instance.
        """
        aliases = {part: aliases_of(part.record, part.named) for part in parts}
        rows = self._read_aliases(
            (alias for found in aliases.values() for alias in found), {part.record.cluster for part in parts}
        )
        for part, candidates in aliases.items():
            found = self._find(part, candidates, rows)
            yield (self._marked(part, *found, candidates, rows) if isinstance(found, tuple) else part), found

    def _find(
        self, part: RecordPart, candidates: Sequence[Alias], rows: Mapping[Alias, AliasRow]
    ) -> FoundNode | Rejected | None:
        cluster, any_cluster = part.record.cluster, part.record.cluster == keys.NO_CLUSTER
        if any_cluster and not part.observations:
            return None
        row = resolve(tuple(candidates), rows, None if any_cluster else cluster)
        config = self.rulebook.config(row.key.cluster if row and any_cluster else cluster)
        if config is None and not any_cluster:
            return Rejected("unknown_cluster", cluster)
        if config is not None:
            others = [rows[alias] for alias in candidates if alias in rows]
            objection = self.trust.refusal(part.record, config, row, others)
            if objection is not None:
                return Rejected("untrusted", objection)
        if row is not None and config is not None:
            return config, row
        if part.record.source in ACCOUNT_WIDE_SOURCES:
            return None
        return Rejected("unknown_node", _stated_name(part))

    def _marked(
        self,
        part: RecordPart,
        config: ClusterConfig,
        row: AliasRow,
        candidates: Sequence[Alias],
        rows: Mapping[Alias, AliasRow],
    ) -> RecordPart:
        others = [rows[alias] for alias in candidates if alias in rows]
        if not self.trust.is_claim(part.record, config, row, others):
            return part
        return replace(part, record=replace(part.record, claimed=True))

    def _read_aliases(self, aliases: Iterable[Alias], clusters: Iterable[str]) -> Mapping[Alias, AliasRow]:
        """Return the rows of those aliases that exist, by alias.

        The same call reads the registrations of `clusters` and the pointer to the current policy into the item cache,
        because they are needed next.
        """
        wanted = {keys.alias(*alias): alias for alias in aliases}
        registered = [keys.cluster_config(cluster) for cluster in clusters if cluster != keys.NO_CLUSTER]
        found = self.item_cache.get_many([*wanted, *registered, keys.CURRENT_POLICY])
        return {alias: items.read_alias(found[key]) for key, alias in wanted.items() if key in found}


def _stated_name(part: RecordPart) -> str:
    return part.record.node or part.named or part.record.instance_id or "the record names no node"
