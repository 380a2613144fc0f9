"""Aliases: the many names of one node, and where each of them leads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from faultbridge.domain.nodes import NodeKey


class Alias(NamedTuple):
    """One name of one kind: `instance` names are unique in the world, `name` ones within a cluster."""

    kind: str
    value: str


@dataclass(frozen=True, slots=True)
class AliasRow:
    """Where an alias leads, and between which instants it did."""

    key: NodeKey
    instance_id: str | None
    valid_from: datetime
    valid_to: datetime | None = None
