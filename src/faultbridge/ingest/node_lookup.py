"""Placement: to which node each record belongs, and whether its sender may speak of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.nodes import Alias, AliasRow
from faultbridge.errors import Rejected
from faultbridge.ingest.caches import ItemCache
from faultbridge.ingest.record_reader import Part
from faultbridge.pipeline.normalize.resolve import aliases_of, resolve
from faultbridge.pipeline.normalize.trust import Trust
from faultbridge.rules.rulebook import Rulebook
from faultbridge.storage import items, keys

# EC2 tells of every instance of an account; one that nobody registered is none of ours.
TOLD_OF_EVERYTHING = frozenset({"ec2-event"})

Place = tuple[ClusterConfig, AliasRow]


@dataclass(frozen=True, slots=True)
class Placement:
    """Looks up many records at once."""

    item_cache: ItemCache
    rulebook: Rulebook
    trust: Trust

    def __call__(self, parts: Sequence[Part]) -> Iterator[tuple[Part, Place | Rejected | None]]:
        """Yield for each part its place, why it has none, or None where it concerns nobody."""
        aliases = {part: aliases_of(part.record, part.named) for part in parts}
        known = self._known(
            (alias for found in aliases.values() for alias in found), {part.record.cluster for part in parts}
        )
        for part, candidates in aliases.items():
            yield part, self._place(part, candidates, known)

    def _place(
        self, part: Part, candidates: Sequence[Alias], known: Mapping[Alias, AliasRow]
    ) -> Place | Rejected | None:
        cluster, anywhere = part.record.cluster, part.record.cluster == keys.NO_CLUSTER
        if anywhere and not part.observations:
            return None
        row = resolve(tuple(candidates), known, None if anywhere else cluster)
        config = self.rulebook.config(row.key.cluster if row and anywhere else cluster)
        if config is None and not anywhere:
            return Rejected("unknown_cluster", cluster)
        if config is not None:
            others = [known[alias] for alias in candidates if alias in known]
            objection = self.trust.refusal(part.record, config, row, others)
            if objection is not None:
                return Rejected("untrusted", objection)
        if row is not None and config is not None:
            return config, row
        if part.record.source in TOLD_OF_EVERYTHING:
            return None
        return Rejected("unknown_node", _called(part))

    def _known(self, aliases: Iterable[Alias], clusters: Iterable[str]) -> Mapping[Alias, AliasRow]:
        """Look aliases up, and with the same call what the rulebook will ask for next."""
        wanted = {keys.alias(*alias): alias for alias in aliases}
        registered = [keys.cluster_config(cluster) for cluster in clusters if cluster != keys.NO_CLUSTER]
        found = self.item_cache.get_many([*wanted, *registered, keys.CURRENT_POLICY])
        return {alias: items.read_alias(found[key]) for key, alias in wanted.items() if key in found}


def _called(part: Part) -> str:
    return part.record.node or part.named or part.record.instance_id or "no node is named"
