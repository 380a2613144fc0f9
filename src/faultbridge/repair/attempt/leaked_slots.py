"""Orphans: repair slots whose case is not being repaired any more. None should ever be found."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.domain.edges import CaseStatus
from faultbridge.errors import Conflict
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Equals, Update


@dataclass(frozen=True, slots=True)
class ReleaseLeakedSlots:
    """Gives slots back that nobody uses, if the slots did not change since they were read."""

    table: Table

    def __call__(self, cluster: str) -> tuple[str, ...]:
        """Return the cases whose slots were given back."""
        found = self.table.get(keys.cluster_control(cluster))
        control = items.read_control(cluster, found)
        if not control.holders:
            return ()
        places = {keys.case(case): case for case in control.holders}
        cases = self.table.get_many(places)
        orphans = tuple(
            case
            for place, case in places.items()
            if place not in cases or cases[place]["status"] != CaseStatus.IN_PROGRESS.value
        )
        if not orphans:
            return ()
        release = Update(
            keys.cluster_control(cluster),
            remove=tuple(("holders", case) for case in orphans),
            add={"version": 1},
            when=Equals("version", control.version),
        )
        try:
            self.table.write(release)
        except Conflict:
            return ()  # the slots moved on; the next sweep looks again
        return orphans
