"""Append many: commits a transition of each of many nodes, several nodes in each transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Conflict
from faultbridge.ledger.append import Append, Appended, NodeDraft, Revise, group_commits, log_split
from faultbridge.log import log_cause
from faultbridge.storage import items, keys


def append_many(
    append: Append,
    changes: Mapping[NodeKey, Revise],
    *,
    actor: Actor,
    on_commit: Callable[[NodeKey], None] = lambda _: None,
) -> dict[NodeKey, Appended]:
    """Commit a transition of each of many nodes, as `Append` does for one; returns the results by node.

    All nodes are read with batch reads. If a node of a transaction has changed since, each node of that transaction is
    committed alone. `on_commit` is called for each node once its transaction is committed. A node that cannot be read
    or computed stops no other: the first such error is raised after the others are committed.
    """
    drafts, errors = _draft_each(append, changes, actor)
    results: dict[NodeKey, Appended] = {}
    for group in group_commits(drafts):
        nodes = {draft.appended.state.key: draft.appended for draft in group}
        try:
            append.commit([write for draft in group for write in draft.writes])
        except Conflict as conflict:
            log_split(str(conflict), nodes)
            nodes = {node: append(node, changes[node], actor=actor) for node in nodes}
        results |= nodes
        for node in nodes:
            on_commit(node)
    if errors:
        raise errors[0]
    return results


def _draft_each(
    append: Append, changes: Mapping[NodeKey, Revise], actor: Actor
) -> tuple[list[NodeDraft], list[Exception]]:
    """Return the drafts of the nodes, and the errors of those that cannot be read or computed."""
    wanted = {keys.node_state(node): node for node in changes}
    found = append.table.get_many(wanted)
    drafts: list[NodeDraft] = []
    errors: list[Exception] = []
    for key, node in wanted.items():
        try:
            before = items.read_state(node, found.get(key))
            drafts.append(NodeDraft(*append.draft(before, changes[node], actor=actor)))
        except Exception as error:  # noqa: BLE001 - a bug with one node must not stop the others; the first is raised
            reason = f"{type(error).__name__}: {error}"
            log_cause("draft_failed", reason=reason, cluster=node.cluster, node=node.node, actor=actor.value)
            errors.append(error)
    return drafts, errors
