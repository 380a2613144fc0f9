"""External: an instance that others took away while a repair was at work on it, before it was given up by us.

The attempt goes on where the seat is empty: it waits for a successor. Nothing that was wrong with the machine that left
says anything of the one that comes.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.cases import EXTERNAL, Phase
from faultbridge.domain.catalogue import Scope
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.ports import Presence
from faultbridge.services.append import Revision
from faultbridge.services.replacement.outcomes import Answer, Outcome
from faultbridge.services.replacement.progress import live, moved
from faultbridge.services.replacement.work import Work
from faultbridge.stages import narrate
from faultbridge.stages.decide import decide
from faultbridge.stages.expire import end_scopes


def taken_away(work: Work, step: str) -> Answer | None:
    """Settle a step by which the instance is gone that others terminated; None where it is there or nobody can tell."""
    if not is_gone(work):
        return None
    reason = why_gone(work)

    def finish(state: NodeState, now: datetime) -> Revision:
        case, _ = live(state)
        told = narrate.step(case, step, "gone", now, reason=reason, old_instance=work.instance_id)
        state = replace(state, case=replace(case, marks={**case.marks, EXTERNAL: now}))
        ended = end_scopes(state, Scope, at=now, reason=reason)
        decided = decide(ended.state, ended.changes, work.rules, now)
        state, draft = moved(decided.state, NodeStatus.PROVISIONING, now, reason)
        return Revision(state, (told, *decided.drafts, draft))

    # It is what an inventory finds, and may write; a step only finds it sooner.
    return work.settle(Outcome.GONE, Phase.AWAITING, finish, Actor.INVENTORY)


def is_gone(work: Work) -> bool:
    """Tell whether the instance in the seat is gone; False where nobody can tell."""
    if work.instance_id is None or work.state.seat.group is None or work.rules.config.follows:
        return False
    return work.provider.probe(work.instance_id) is Presence.GONE


def why_gone(work: Work) -> str:
    """Say in the record that others did it."""
    return f"{EXTERNAL}: {work.instance_id} was taken away by others"
