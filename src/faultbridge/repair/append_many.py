"""Append many: commits a transition of each of many nodes, several nodes in each transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Conflict
from faultbridge.ledger.append import Append, Appended, NodeDraft, Revise, group_commits, log_split
from faultbridge.log import log_cause
from faultbridge.storage import items, keys


def append_many(append: Append, changes: Mapping[NodeKey, Revise], *, actor: Actor) -> Iterator[Appended]:
    """Commit a transition of each of many nodes, as `Append` does for one; yields each result once it is committed.

    All nodes are read with batch reads. If a node of a transaction has changed since, each node of that transaction is
    committed alone. A node that cannot be read or computed stops no other: the first such error is raised after the
    others are committed.
    """
    drafts, errors = _draft_each(append, changes, actor)
    for group in group_commits(drafts):
        done = [draft.appended for draft in group]
        try:
            append.commit([write for draft in group for write in draft.writes])
        except Conflict as conflict:
            nodes = [one.state.key for one in done]
            log_split(str(conflict), nodes)
            for node in nodes:
                yield append(node, changes[node], actor=actor)
        else:
            yield from done
    if errors:
        raise errors[0]


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
