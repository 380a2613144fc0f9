"""Commits changes of many nodes, with several nodes in each transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from faultbridge.domain.edges import Actor
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Conflict, Transient
from faultbridge.ledger.append import Append, Appended, NodeDraft, Revise, group_commits, log_split
from faultbridge.log import log_cause
from faultbridge.storage import items, keys


def append_many(
    append: Append,
    changes: Mapping[NodeKey, Revise],
    *,
    actor: Actor,
    alone: Callable[[NodeKey], Appended | None] | None = None,
) -> Iterator[Appended]:
    """Commit a change of each of many nodes, and yield each result once it is committed.

    `changes` maps each node to the function that computes the node's new state and entries.

    - If a transaction of several nodes fails, for example because one of these nodes was changed by another writer,
      each of its nodes is committed alone: by `alone`, or by `append` if `alone` is None.
    - An error with one node does not stop the other nodes. The first error is raised after all nodes are done.
    - Transient is raised at once if the table is unavailable for the first read or for a transaction of several nodes.
    """
    drafts, errors = _draft_each(append, changes, actor)
    commit_alone = alone or (lambda node: append(node, changes[node], actor=actor))
    for group in group_commits(drafts):
        if _is_committed(append, group):
            yield from (draft.appended for draft in group)
            continue
        for node in (draft.appended.state.key for draft in group):
            try:
                done = commit_alone(node)
            except Exception as error:  # noqa: BLE001 - it concerns this node only; the first is raised at the end
                errors.append(_logged("commit_failed", node, actor, error))
                continue
            if done is not None:
                yield done
    if errors:
        raise errors[0]


def _is_committed(append: Append, group: Sequence[NodeDraft]) -> bool:
    """Commit the drafts in one transaction. Returns False if each node must be committed alone."""
    try:
        append.commit([write for draft in group for write in draft.writes])
    except Exception as error:
        if isinstance(error, Transient) and not isinstance(error, Conflict):
            raise
        log_split(f"{type(error).__name__}: {error}", [draft.appended.state.key for draft in group])
        return False
    return True


def _draft_each(
    append: Append, changes: Mapping[NodeKey, Revise], actor: Actor
) -> tuple[list[NodeDraft], list[Exception]]:
    wanted = {keys.node_state(node): node for node in changes}
    found = append.table.get_many(wanted)
    drafts: list[NodeDraft] = []
    errors: list[Exception] = []
    for key, node in wanted.items():
        try:
            before = items.read_state(node, found.get(key))
            drafts.append(NodeDraft(*append.draft(before, changes[node], actor=actor)))
        except Exception as error:  # noqa: BLE001 - a bug with one node must not stop the others; the first is raised
            errors.append(_logged("draft_failed", node, actor, error))
    return drafts, errors


def _logged(decision: str, node: NodeKey, actor: Actor, error: Exception) -> Exception:
    reason = f"{type(error).__name__}: {error}"
    log_cause(decision, reason=reason, cluster=node.cluster, node=node.node, actor=actor.value)
    return error
