"""Leaked repair slots: releases slots of cases that are not in repair. Normally there are none."""

from __future__ import annotations

import logging

from faultbridge.dataclass import dataclass
from faultbridge.domain.edges import CaseStatus
from faultbridge.errors import Conflict
from faultbridge.log import log_cause
from faultbridge.ports import Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Equals, Update


@dataclass(frozen=True, slots=True)
class ReleaseLeakedSlots:
    """Releases the leaked repair slots of a cluster.

    A slot is leaked if its case is not in repair.
    """

    table: Table

    def __call__(self, cluster: str) -> tuple[str, ...]:
        """Release the leaked repair slots of a cluster, and return the ids of the cases that had them.

        Releases nothing if another writer changed the cluster's controls since they were read.
        """
        found = self.table.get(keys.cluster_control(cluster))
        control = items.read_control(cluster, found)
        if not control.holders:
            return ()
        case_keys = {keys.case(case): case for case in control.holders}
        cases = self.table.get_many(case_keys)
        leaked = tuple(
            case
            for key, case in case_keys.items()
            if key not in cases or cases[key]["status"] != CaseStatus.IN_PROGRESS.value
        )
        if not leaked:
            return ()
        release = Update(
            keys.cluster_control(cluster),
            remove=tuple(("holders", case) for case in leaked),
            add={"version": 1},
            when=Equals("version", control.version),
        )
        try:
            self.table.write(release)
        except Conflict as conflict:
            # The slots changed in the meantime; the next sweep checks them again.
            log_cause("leaked_slots_kept", reason=str(conflict), cluster=cluster)
            return ()
        for case in leaked:
            reason = "the case holds a slot but is not in progress"
            log_cause("leaked_slot_released", reason=reason, level=logging.WARNING, cluster=cluster, case_id=case)
        return leaked
