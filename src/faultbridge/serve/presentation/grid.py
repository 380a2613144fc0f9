"""Grid: a cluster's nodes by group and failure domain; above 1,000 nodes healthy ones are only counted."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from faultbridge.serve.presentation.tones import NODE, Mark, mark

MAX_SINGLE_NODES = 1_000
"""If a cluster has more nodes, healthy nodes are only counted, not listed."""

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
    """The nodes of one group in one failure domain; `hidden` counts the healthy nodes that are not listed."""

    group: str
    domain: str
    total: int
    nodes: tuple[GridNode, ...]
    hidden: int
    counts: tuple[tuple[Mark, int], ...]


def node_groups(nodes: Sequence[GridNode]) -> tuple[NodeGroup, ...]:
    """Return the nodes of a cluster by group and failure domain, each in the order of names."""
    members: dict[tuple[str, str], list[GridNode]] = defaultdict(list)
    for node in nodes:
        members[node.group or "no group", node.domain or ""].append(node)
    single = len(nodes) <= MAX_SINGLE_NODES
    return tuple(
        _group(name, members[name], single=single)
        for name in sorted(members, key=lambda one: [natural_order(part) for part in one])
    )


def natural_order(name: str) -> tuple[tuple[int, str], ...]:
    """Return a sort key for names in which `node-9` comes before `node-10`."""
    return tuple((len(part.lstrip("0")) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", name))


def _group(name: tuple[str, str], members: Iterable[GridNode], *, single: bool) -> NodeGroup:
    ordered = sorted(members, key=lambda one: natural_order(one.node))
    shown = tuple(one for one in ordered if single or one.status != "healthy")
    counts = Counter(one.status for one in ordered)
    order = list(NODE)
    marks = sorted(counts.items(), key=lambda one: order.index(one[0]) if one[0] in order else len(order))
    return NodeGroup(
        name[0], name[1], len(ordered), shown, len(ordered) - len(shown), tuple((mark(s, NODE), n) for s, n in marks)
    )


class GpuShare(Struct, frozen=True):
    """The number of GPUs of nodes with a known instance type, and how many of these GPUs are in service."""

    gpus: int
    in_service: int

    @property
    def percent(self) -> float | None:
        """The percentage of GPUs in service; None if there are no GPUs."""
        return 100 * self.in_service / self.gpus if self.gpus else None


def gpu_share(nodes: Iterable[GridNode], gpus_by_type: dict[str, int]) -> GpuShare:
    """Count the GPUs of nodes, and those in service; an unknown instance type has no GPUs."""
    total = serving = 0
    for node in nodes:
        gpus = gpus_by_type.get((node.instance_type or "").removeprefix("ml."), 0)
        total += gpus
        serving += gpus if node.status in IN_SERVICE else 0
    return GpuShare(total, serving)
