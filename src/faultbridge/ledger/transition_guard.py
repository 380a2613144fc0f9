"""The guard of append: a status moves only by entries that say so, along edges that the actor may take."""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.domain.edges import CASE_EDGES, NODE_EDGES, Actor, Edge, allowed
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import IllegalTransition


def check_moves(before: NodeState, after: NodeState, drafts: Iterable[Draft], actor: Actor) -> None:
    """Refuse a revision whose entries do not lead, edge by edge, from the state before to the one after."""
    drafts = tuple(drafts)
    _walk("node", NODE_EDGES, before.status, after.status, _moves(drafts, EntryType.NODE_STATUS), actor)
    start = before.live_case.status if before.live_case else None
    target = after.case.status if after.case else None
    if after.case == before.case and not after.live_case:
        target = start
    _walk("case", CASE_EDGES, start, target, _moves(drafts, EntryType.CASE_STATUS), actor)


def _moves(drafts: Iterable[Draft], kind: EntryType) -> list[tuple[str | None, str]]:
    return [(draft.data["from"], draft.data["to"]) for draft in drafts if draft.type is kind]


def _walk(
    what: str,
    edges: tuple[Edge, ...],
    start: str | None,
    target: str | None,
    moves: Iterable[tuple[str | None, str]],
    actor: Actor,
) -> None:
    at = start
    for source, aim in moves:
        if source != at or not allowed(edges, source, aim, actor):
            message = f"{what} at {at} may not go from {source} to {aim} by {actor.value}"
            raise IllegalTransition(message)
        at = aim
    if at != target:
        message = f"{what} would become {target} while its entries say {at}"
        raise IllegalTransition(message)
