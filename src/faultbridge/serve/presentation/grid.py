"""Grid: a cluster's nodes by group, of which healthy ones are only counted, its GPUs, and what is recorded of each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from faultbridge.model.enums import Resolution
from faultbridge.model.event_data import Component
from faultbridge.repair.registry.documents import Case, Condition, Node
from faultbridge.serve.presentation.tones import NODE, SEVERITY, Mark, Tone, mark

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


UNKNOWN = "-"
TESTED = frozenset({Resolution.REPLACED.value, Resolution.REPAIRED.value})
TOPICS: tuple[tuple[str, str, str], ...] = (
    ("ECC", r"ecc|double_bit|sbe|sram|xid\.(48|92|94|95)\b", r"_ECC_[SD]BE"),
    ("Row remap", r"remap|retire|xid\.(63|64|160|161)\b", r"REMAP|RETIRE"),
    ("Last Xid", r"^xid\.", r"XID"),
    ("Thermal", r"therm|temp|overheat|cooling", r"THERMAL"),
    ("NVLink", r"nvlink|xid\.(74|14[4-9]|150)\b", r"NVLINK"),
)
"""The facts about a GPU: name, pattern of the codes and failure modes, and pattern of the counters."""


class Counters(Struct, frozen=True):
    """The last counters of one component of a node, as one source reported them."""

    component: Component
    values: Mapping[str, int | str]


class GpuFact(Struct, frozen=True):
    """One fact about a GPU in words, with the time at which it was last observed, if it is known."""

    name: str
    value: str
    at: datetime | None = None


class GpuCell(Struct, frozen=True):
    """A GPU: its name on the node, how urgent its worst fault is, and its facts."""

    name: str
    mark: Mark
    facts: tuple[GpuFact, ...]


class GpuRow(Struct, frozen=True):
    """The GPUs of one node, and when diagnostics last passed on it (`tested_at`; None if that is unknown).

    `unnamed` is the number of further GPUs, of which the record holds nothing.
    """

    node: Node
    status: Mark
    tested_at: datetime | None
    cells: tuple[GpuCell, ...]
    unnamed: int


def gpu_row(node: Node, counters: Iterable[Counters], number: int, cases: Iterable[Case] = ()) -> GpuRow:
    """Return the GPUs of a node; `number` is how many its instance type has, `cases` are its last cases."""
    counted = [one for one in counters if one.component.type in {"gpu", "nvlink"}]
    faults = [one for one in node.conditions if one.component.type in {"gpu", "nvlink"}]
    gpus: list[Component] = []
    for one in (*node.devices, *(fault.component for fault in faults), *(sample.component for sample in counted)):
        if one.type in {"gpu", "nvlink"} and not any(_is_same(one, known) for known in gpus):
            gpus.append(one)
    gpus.sort(key=lambda one: (one.index is None, one.index or 0, one.pci or ""))
    tested = [one.closed_at for one in cases if one.node == node.node and one.resolution in TESTED and one.closed_at]
    cells = tuple(_cell(one, faults, counted) for one in gpus)
    return GpuRow(node, mark(node.status, NODE), max(tested, default=None), cells, max(number - len(gpus), 0))


def _is_same(one: Component, other: Component) -> bool:
    pairs = ((getattr(one, name), getattr(other, name)) for name in ("uuid", "pci", "index"))
    return next((mine == theirs for mine, theirs in pairs if mine is not None and theirs is not None), False)


def _cell(gpu: Component, faults: Iterable[Condition], counters: Iterable[Counters]) -> GpuCell:
    own = [one for one in faults if _is_same(one.component, gpu)]
    values = {name: value for one in counters if _is_same(one.component, gpu) for name, value in one.values.items()}
    facts = tuple(_fact(name, codes, counted, own, values) for name, codes, counted in TOPICS)
    order = list(SEVERITY)
    worst = max(own, key=lambda one: order.index(one.severity) if one.severity in order else len(order), default=None)
    if worst:
        shown = Mark(f"{worst.code}, {worst.severity}", mark(worst.severity, SEVERITY).tone)
    else:
        shown = Mark("no fault", Tone.GOOD) if values else Mark("no fault known", Tone.OFF)
    more = tuple(
        GpuFact("Other fault", f"{one.code}: {one.message}", one.last_at)
        for one in own
        if not any(_is_about(one, codes) for _, codes, _ in TOPICS)
    )
    name = str(gpu.index) if gpu.index is not None else (gpu.pci or gpu.uuid or "?")[-7:]
    serial = (GpuFact("Serial", gpu.serial),) if gpu.serial else ()
    return GpuCell(name, shown, (*facts, *more, *serial))


def _fact(name: str, codes: str, counted: str, faults: Sequence[Condition], values: Mapping[str, int | str]) -> GpuFact:
    found = max((one for one in faults if _is_about(one, codes)), key=lambda one: one.last_at, default=None)
    if found:
        return GpuFact(name, f"{found.code}: {found.message}", found.last_at)
    known = {counter: value for counter, value in values.items() if re.search(counted, counter)}
    if not known:
        return GpuFact(name, UNKNOWN)
    raised = [f"{counter.rpartition('/')[2]} = {value}" for counter, value in known.items() if value not in {0, ""}]
    return GpuFact(name, ", ".join(raised) or "0 counted")


def _is_about(condition: Condition, codes: str) -> bool:
    return any(re.search(codes, text) for text in (condition.code, condition.failure_mode, *condition.codes))
