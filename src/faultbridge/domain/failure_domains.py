"""Failure domains: what machines share, and therefore lose together."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class DomainKind(StrEnum):
    """What machines may share, narrowest first; `network_node` is the switch nearest to the machine."""

    ULTRASERVER = "ultraserver"
    NETWORK_NODE = "network_node"
    ZONE = "zone"
    CAPACITY_BLOCK = "capacity_block"
    PLACEMENT_GROUP = "placement_group"


def narrowest(domains: Mapping[str, str]) -> str | None:
    """Return the narrowest domain that is known of a machine."""
    return next((domains[kind] for kind in DomainKind if domains.get(kind)), None)
