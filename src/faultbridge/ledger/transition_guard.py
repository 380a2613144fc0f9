"""Transition guard: permits status changes only along legal transitions, each recorded by an entry."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from faultbridge.domain.edges import CASE_EDGES, NODE_EDGES, Actor, Edge, allowed
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import IllegalTransition
from faultbridge.log import log_cause


def check_moves(before: NodeState, after: NodeState, drafts: Iterable[Draft], actor: Actor) -> None:
    """Raise IllegalTransition unless the entries record how the status of the node and of its case changed.

    The recorded changes must lead from the status in `before` to the status in `after`. Each change must be a legal
    transition for the actor (`domain/edges.py`).
    """
    drafts = tuple(drafts)
    case_before = before.live_case.status if before.live_case else None
    case_after = after.case.status if after.case else None
    if after.case == before.case and not after.live_case:
        case_after = case_before
    try:
        _check_path("node", NODE_EDGES, before.status, after.status, _moves(drafts, EntryType.NODE_STATUS), actor)
        _check_path("case", CASE_EDGES, case_before, case_after, _moves(drafts, EntryType.CASE_STATUS), actor)
    except IllegalTransition as refused:
        case = after.case or before.case
        log_cause(
            "transition_refused",
            reason=refused.detail,
            level=logging.WARNING,
            cluster=before.key.cluster,
            node=before.key.node,
            case_id=case.id if case else None,
            actor=actor.value,
        )
        raise


def _moves(drafts: Iterable[Draft], entry_type: EntryType) -> list[tuple[str | None, str]]:
    return [(draft.data["from"], draft.data["to"]) for draft in drafts if draft.type is entry_type]


def _check_path(
    subject: str,
    edges: tuple[Edge, ...],
    start: str | None,
    end: str | None,
    moves: Iterable[tuple[str | None, str]],
    actor: Actor,
) -> None:
    status = start
    for source, target in moves:
        if source != status or not allowed(edges, source, target, actor):
            raise IllegalTransition(
                f"{subject} status {status}: {actor.value} may not record a move from {source} to {target}; "
                "domain/edges.py lists the legal moves"
            )
        status = target
    if status != end:
        raise IllegalTransition(
            f"{subject} status {end}: the entries of the transition end at {status}; record the change"
        )
