"""The stages in the order in which a node's observations pass them; the diagram in the docs is this file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.catalog import Catalog, Scope
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.approval_timeout import lapse
from faultbridge.pipeline.decide.decide import decide
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.fold.expire import end_scopes, expire
from faultbridge.pipeline.fold.fold import fold

REBOOT_ENDS = (Scope.PROCESS, Scope.BOOT)


def observe(
    state: NodeState,
    arrivals: Iterable[Arrival],
    *,
    rebooted: bool,
    rules: Rules,
    catalog: Catalog,
    now: datetime,
) -> Transition:
    """Pass observations of one node through classify, fold and decide; classify runs inside fold, once a fault."""
    ended = end_scopes(state, REBOOT_ENDS if rebooted else (), at=now, reason="reboot")
    folded = fold(ended.state, arrivals, now=now, catalog=catalog, limits=rules.policy.limits)
    decided = decide(folded.state, ended.changes + folded.changes, rules, now)
    return replace(decided, outcomes=folded.outcomes)


def tick(state: NodeState, *, rules: Rules, now: datetime) -> Transition:
    """Pass time alone through the same stages: quiet conditions end, waits and questions are over."""
    expired = expire(state, now=now)
    decided = decide(expired.state, expired.changes, rules, now)
    return lapse(decided, now)
