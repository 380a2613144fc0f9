"""Transition: the changes of one decision to a node and its repair case, committed in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.records import Outcome


@dataclass(frozen=True, slots=True)
class Transition:
    """A node's next state, and the draft timeline entries of the change in their order.

    - `writes` are further DynamoDB writes (`storage.writes.Write`) that commit in the same transaction.
    - `outcomes` maps the id of each raw record to its outcome. It is empty if no raw record caused the change.
    - `remaining` holds the observations (`pipeline.fold.changes.Arrival`) that did not fit into this commit.
    """

    state: NodeState
    drafts: tuple[Draft, ...] = ()
    writes: tuple[Any, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    remaining: tuple[Any, ...] = ()
