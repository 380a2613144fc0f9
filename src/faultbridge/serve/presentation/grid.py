"""Grid: a cluster's nodes by group, of which healthy ones are only counted, and the share of GPUs in service."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from faultbridge.serve.presentation.tones import NODE, Mark, mark

MAX_SINGLE_NODES = 1_000
"""If a failure domain has more nodes, nodes that an incident does not concern are only counted, not listed."""

IN_SERVICE = frozenset({"healthy", "degraded"})


class GridNode(Struct, frozen=True):
    """A node in the grid: its name, status, group, failure domain and instance type."""

    node: str
    status: str = "healthy"
    group: str | None = None
    domain: str | None = None
    instance_type: str | None = None

    @property
    def mark(self) -> Mark:
        """The status of the node as a mark (text with a tone)."""
        return mark(self.status, NODE)


class NodeGroup(Struct, frozen=True):
    """The nodes of one group: those with faults or without data, and the names of healthy ones, which are folded."""

    group: str
    nodes: tuple[GridNode, ...]
    healthy: tuple[str, ...]


def node_groups(nodes: Iterable[GridNode]) -> tuple[NodeGroup, ...]:
    """Return the nodes of a cluster by group, in the order of names."""
    members: dict[str, list[GridNode]] = defaultdict(list)
    for node in nodes:
        members[node.group or "no group"].append(node)
    return tuple(_group(name, members[name]) for name in sorted(members, key=natural_order))


def _group(name: str, members: Sequence[GridNode]) -> NodeGroup:
    ordered = sorted(members, key=lambda one: natural_order(one.node))
    unhealthy = tuple(one for one in ordered if one.status != "healthy")
    return NodeGroup(name, unhealthy, tuple(one.node for one in ordered if one.status == "healthy"))


def natural_order(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key for names in which `node-9` comes before `node-10`."""
    return tuple((len(part.lstrip("0")) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name))


class GpuShare(Struct, frozen=True):
    """The number of GPUs of nodes with a known instance type, and how many of these GPUs are in service."""

    gpus: int
    in_service: int

    @property
    def percent(self) -> float | None:
        """The percentage of GPUs in service; None if there are no GPUs."""
        return 100 * self.in_service / self.gpus if self.gpus else None


def gpu_share(nodes: Iterable[GridNode], gpus_by_type: Mapping[str, int]) -> GpuShare:
    """Count the GPUs of nodes, and those in service; an unknown instance type has no GPUs."""
    total = serving = 0
    for node in nodes:
        gpus = gpus_by_type.get((node.instance_type or "").removeprefix("ml."), 0)
        total += gpus
        serving += gpus if node.status in IN_SERVICE else 0
    return GpuShare(total, serving)
