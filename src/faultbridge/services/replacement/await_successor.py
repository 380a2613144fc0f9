"""Await: a new instance of the group takes the seat of the one that was given up."""

from __future__ import annotations

from faultbridge.domain.cases import Phase
from faultbridge.errors import Misconfigured
from faultbridge.services.replacement.claim import Taken, claim
from faultbridge.services.replacement.outcomes import Answer, Outcome
from faultbridge.services.replacement.work import Work, waiting
from faultbridge.stages import narrate

NAME = "await_successor"


def await_successor(work: Work) -> Answer:
    """Claim the oldest unclaimed instance that the group launched after the intent, or wait for one."""
    intent, group = work.attempt.intent, work.state.seat.group
    if intent is None or group is None:
        raise Misconfigured(f"{work.state.key.stream} has no {'intent' if group else 'group'} to find a successor by")
    candidates = [
        candidate
        for candidate in work.provider.candidates(group, intent.at.replace(microsecond=0))
        if candidate.running and candidate.instance_id != intent.instance_id
    ]
    for candidate in candidates:
        try:
            return work.settle(Outcome.DONE, Phase.AWAITING, claim(work, candidate))
        except Taken:
            continue  # another seat has it; the next one may be free
    return waiting(f"no successor yet in {group}")


def successor_is_late(work: Work, reason: str) -> Answer:
    """Hand over a seat that nothing came for: the old instance is gone, so there is no way back."""
    old = work.attempt.intent.instance_id if work.attempt.intent else None
    draft = narrate.step(
        work.case, NAME, "timed_out", work.tools.clock.now(), reason=reason, failure="TIMEOUT", old_instance=old
    )
    return work.escalate(f"TIMEOUT: {reason}", draft)
