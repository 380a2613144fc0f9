"""The stages that change the state of one node, in order, after new observations or with time.

`observe` applies new observations:

1. end the conditions that a reboot ends, if the node was rebooted,
2. record the devices that health snapshots show for the first time,
3. fold: apply the observations to the node's conditions,
4. decide: set the node's status, and open, change or close its case, by the rules of the policy,
5. shadow: add a note if a second policy, which has no effect, would decide differently.

`tick` ends conditions that were quiet for long enough, decides, and escalates a case whose approval was not answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.catalog import Catalog
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Snapshot
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.records import Outcome
from faultbridge.pipeline.decide.approval_timeout import expire_approval
from faultbridge.pipeline.decide.decide import decide
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.decide.shadow import note_shadow
from faultbridge.pipeline.fold.changes import Arrival, Folded
from faultbridge.pipeline.fold.expire import end_boot, expire
from faultbridge.pipeline.fold.fold import fold
from faultbridge.pipeline.fold.sightings import Sightings, record_sightings


def observe(
    state: NodeState,
    arrivals: Iterable[Arrival],
    *,
    rules: Rules,
    catalog: Catalog,
    now: datetime,
    booted_at: datetime | None = None,
) -> Transition:
    """Apply new observations to a node.

    `booted_at` is the time of the first observation if the node was rebooted, else None. The conditions that a reboot
    ends then end before that observation, so that a fault of the new boot opens them again.
    """
    ended = Folded(state) if booted_at is None else end_boot(state, before=booted_at, now=now)
    arrivals = tuple(arrivals)
    snapshots = [arrival for arrival in arrivals if isinstance(arrival.observation, Snapshot)]
    seen = Sightings(ended.state)
    if snapshots:
        seen = record_sightings(ended.state, snapshots, now - rules.policy.limits.remember_for)
    changed = len(ended.changes) + seen.weight
    limits, damped = rules.policy.limits, rules.config.damped(now)
    folded = fold(seen.state, arrivals, now=now, catalog=catalog, limits=limits, changed=changed, damped=damped)
    changes = ended.changes + seen.changes + folded.changes
    decided = decide(folded.state, changes, rules, now)
    if rules.shadow is not None:
        decided = note_shadow(decided, folded.state, changes, rules, now)
    recorded = {change.record_id: Outcome.RECORDED for change in seen.changes if change.record_id}
    return replace(decided, outcomes={**folded.outcomes, **recorded}, remaining=folded.remaining)


def tick(state: NodeState, *, rules: Rules, now: datetime) -> Transition:
    """Apply the passing of time to a node: quiet conditions, waiting periods and approval requests end."""
    expired = expire(state, now=now)
    decided = decide(expired.state, expired.changes, rules, now)
    return expire_approval(decided, now)
