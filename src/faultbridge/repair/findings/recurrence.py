"""Finds failures that recur: one failure mode on several nodes of a group or a failure domain within a week.

A recurrence is one finding and one page. It starts no repair and ends none: it shows that the nodes share a cause, such
as an image, a driver or a rack, which the replacement of each node does not fix.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.model.cases import Case
from faultbridge.model.cluster.config import ClusterConfig, failure_domains
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, DomainKind, NodeStatus, NoteKind
from faultbridge.model.findings import Finding, finding_id
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import findings as stored
from faultbridge.model.storage.writes import Absent, Equals, Put
from faultbridge.model.values import replace
from faultbridge.record.append import Append

WITHIN = timedelta(days=7)
MIN_NODES = 3
MIN_PERCENT = 2
"""The least number of failed nodes of a place, and their least share: a large group has some failures each week."""

WIDE = frozenset({DomainKind.CLUSTER, DomainKind.INTAKE, DomainKind.ZONE, DomainKind.CAPACITY_BLOCK})
"""Domains whose nodes share nothing that one failure mode could point to, besides their group."""

ENDED_BY_OTHERS = frozenset({"cloud.instance_gone", "cloud.instance_replaced"})
"""Codes of cases of instances that another controller ended: a scale-in or an update, and no failure."""

PREFIX = "recurrence "
"""The start of the detector's name in the finding of a recurrence; its failure mode and its place follow."""

MAX_NAMED = 8


class Recurrence(Struct, frozen=True):
    """A failure mode of several nodes of one place; `node` failed last."""

    mode: str
    place: str
    nodes: tuple[str, ...]
    total: int
    node: str

    @property
    def detector(self) -> str:
        """Return the name under which the finding is stored."""
        return f"{PREFIX}{self.mode} {self.place}"

    @property
    def text(self) -> str:
        """Return one line of text for operators."""
        named = ", ".join(self.nodes[:MAX_NAMED]) + (", and others" if len(self.nodes) > MAX_NAMED else "")
        count = f"{len(self.nodes)} of {self.total} nodes of {self.place}"
        return f"{self.mode} recurs: {count} failed within {WITHIN.days} days ({named})"


def find_recurrences(config: ClusterConfig, states: Iterable[NodeState], now: datetime) -> tuple[Recurrence, ...]:
    """Return the failure modes that recur, smallest places first; the last case of each node counts.

    A larger place is left out if a smaller one has the same failed nodes.
    """
    members: dict[str, list[NodeState]] = {}
    for state in states:
        for place in _places(config, state):
            members.setdefault(place, []).append(state)
    found: list[Recurrence] = []
    for place, nodes in sorted(members.items(), key=lambda one: (len(one[1]), one[0])):
        for recurrence in _of_place(place, nodes, now):
            known = (one for one in found if one.mode == recurrence.mode)
            if not any(set(recurrence.nodes) <= set(one.nodes) for one in known):
                found.append(recurrence)
    return tuple(found)


def _places(config: ClusterConfig, state: NodeState) -> Iterator[str]:
    if state.status in {None, NodeStatus.RETIRED}:
        return
    placement = state.placement
    if placement.group:
        yield f"group {placement.group}"
    key = state.key
    for one in failure_domains(key.cluster, key.node, placement.domain, placement.domains, config.domains):
        if one.kind not in WIDE:
            yield one.text


def _of_place(place: str, nodes: Sequence[NodeState], now: datetime) -> Iterator[Recurrence]:
    by_mode: dict[str, list[tuple[Case, str]]] = {}
    for state in nodes:
        if state.case is not None and _counts(state.case, now):
            by_mode.setdefault(state.case.mode, []).append((state.case, state.key.node))
    for mode, failed in sorted(by_mode.items()):
        if len(failed) < max(MIN_NODES, math.ceil(len(nodes) * MIN_PERCENT / 100)):
            continue
        _, node = max(failed, key=lambda one: (one[0].opened_at, one[0].id))
        yield Recurrence(mode, place, tuple(sorted(name for _, name in failed)), len(nodes), node)


def _counts(case: Case, now: datetime) -> bool:
    """Return whether a case shows a failure of its own node: proven, and not explained by an incident."""
    explained = case.incident is not None or CaseStatus.ABSORBED.value in case.marks
    unrelated = case.claimed or case.before_service or explained or case.code in ENDED_BY_OTHERS
    return bool(case.mode) and not unrelated and case.opened_at > now - WITHIN


def record_recurrences(
    append: Append, config: ClusterConfig, states: Mapping[str, NodeState], known: Iterable[Finding]
) -> int:
    """Open and end the findings of recurrences, each with its note; return how many were opened."""
    found = {one.detector: one for one in find_recurrences(config, states.values(), append.clock.now())}
    live = {one.detector: one for one in known if one.ended_at is None and one.detector.startswith(PREFIX)}
    for detector in sorted(found.keys() - live.keys()):
        _open(append, config.cluster, found[detector])
    for detector in sorted(live.keys() - found.keys()):
        _end(append, live[detector])
    return len(found.keys() - live.keys())


def _open(append: Append, cluster: str, one: Recurrence) -> None:
    def revise(state: NodeState, now: datetime) -> Transition:
        name = finding_id(cluster, one.node, one.detector, now)
        count, text = len(one.nodes), one.text
        finding = Finding(name, cluster, one.node, one.detector, now, count, 0, 0, one.total, evidence=text)
        facts = {"finding_id": name, "failure_mode": one.mode, "place": one.place, "nodes": list(one.nodes)}
        note = entry_builder.note(kind=NoteKind.RECURRENCE, text=text, at=now, facts=facts, stage="begun")
        return Transition(state, (note,), (Put(stored.finding_item(finding, now), when=Absent()),))

    append(NodeKey(cluster, one.node), revise, actor=Actor.SWEEP)


def _end(append: Append, finding: Finding) -> None:
    def revise(state: NodeState, now: datetime) -> Transition:
        row = append.table.get(stored.finding_key(finding.cluster, finding.id))
        if row is None or stored.read_finding(row).ended_at is not None:
            return Transition(state)
        ended = replace(stored.read_finding(row), ended_at=now)
        text = f"{finding.detector}: fewer nodes failed within {WITHIN.days} days"
        facts = {"finding_id": finding.id}
        note = entry_builder.note(kind=NoteKind.RECURRENCE, text=text, at=now, facts=facts, stage="over")
        unchanged = Equals("updated_at", str(row["updated_at"]))
        return Transition(state, (note,), (Put(stored.finding_item(ended, now), when=unchanged),))

    append(NodeKey(finding.cluster, finding.node), revise, actor=Actor.SWEEP)
