"""Approval: what a person answered to an attempt that waits for one. The first answer stands, and is on the record.

The answer belongs to one attempt of one case: an old mail cannot approve what is asked today.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.edges import Actor, CaseStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.times import to_text
from faultbridge.errors import Rejected
from faultbridge.ports import Table
from faultbridge.services.append import Append, Revision
from faultbridge.services.directory import CaseView
from faultbridge.stages import narrate
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Put

APPROVED, DENIED = "approved", "denied"


@dataclass(frozen=True, slots=True)
class Approval:
    """Records answers; admission reads them at `CASE#id / ANSWER#attempt`."""

    table: Table
    append: Append

    def __call__(self, view: CaseView, attempt: int, *, approved: bool, by: str, reason: str) -> str:
        """Record an answer and return it; `not_waiting` when nobody asked, `answered` when the first was another."""
        answer = APPROVED if approved else DENIED
        place = keys.answer(view.case.id, attempt)
        found = self.table.get(keys.cluster_config(view.key.cluster))
        if found is None:
            raise Rejected("unknown_cluster", f"{view.key.cluster} is not registered")

        def revise(state: NodeState, now: datetime) -> Revision:
            known = self.table.get(place)
            if known is not None:
                if known["answer"] != answer:
                    raise Rejected("answered", f"attempt {attempt} was {known['answer']} already")
                return Revision(state)
            _check(state, view, attempt)
            text = f"attempt {attempt} {answer}: {reason}" if reason else f"attempt {attempt} {answer}"
            note = narrate.note(kind="operator", text=text, at=now, case_id=view.case.id, operator=by)
            told = {"answer": answer, "by": by, "reason": reason, "at": to_text(now)}
            return Revision(state, (note,), (Put(items.item(place, now, told), when=Absent()),))

        self.append(view.key, revise, actor=Actor.CLI, config=items.read_config(found))
        return answer


def _check(state: NodeState, view: CaseView, attempt: int) -> None:
    case = state.live_case
    waits = case is not None and case.id == view.case.id and case.attempts == attempt
    if case is None or not waits or case.status is not CaseStatus.QUEUED or case.waiting_for is not WaitingFor.APPROVAL:
        raise Rejected("not_waiting", f"no attempt {attempt} of this case waits for an answer")
