"""Known groups: which clusters have a provider's group, and since when each of them has known it.

Providers keep names of groups apart only within a HyperPod cluster, or within an account and region, so groups of
several clusters may have the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.times import from_text, to_text
from faultbridge.ledger.queries import query_all
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Put


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """Stores when a sync first read each group of each cluster."""

    table: Table
    clock: Clock

    def known_since(self, cluster: str, groups: Collection[str]) -> Mapping[str, datetime]:
        """Return when each group of a cluster that was stored before was first stored, and store the others."""
        wanted = {keys.known_group(cluster, group): group for group in groups}
        stored = self.table.get_many(wanted) if wanted else {}
        now = self.clock.now()
        for key in wanted:
            if key not in stored:
                self.table.write(Put(items.item(key, now, {"known_since": to_text(now)})))
        return {wanted[key]: from_text(str(found["known_since"])) for key, found in stored.items()}

    def clusters_with(self, groups: Collection[str]) -> Mapping[str, set[str]]:
        """Return the registered clusters that have each of these groups; no cluster is read without groups."""
        clusters = [str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS)] if groups else []
        wanted = {keys.known_group(cluster, group): (cluster, group) for group in groups for cluster in clusters}
        found: dict[str, set[str]] = {group: set() for group in groups}
        for key in self.table.get_many(wanted) if wanted else ():
            cluster, group = wanted[key]
            found[group].add(cluster)
        return found
