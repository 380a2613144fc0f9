"""Filters and counts of nodes, cases and entries: by mode, code, group, failure domain and more, in all clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Annotated, Any

from faultbridge.cli.declare import BadParameter, Group, Option, Text, Texts
from faultbridge.cli.render.output import Columns, Shown
from faultbridge.cli.stack.session import Session, show_awaited
from faultbridge.model.cluster.config import failure_domains
from faultbridge.model.event_data import FaultData
from faultbridge.repair.registry.documents import Case, Entry, Node

Facts = Mapping[str, list[str]]
"""What a document can be counted and selected by: the values of each name."""

KEYS = ("cluster", "node", "group", "type", "rack", "domain", "status", "severity", "mode", "code", "day")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which documents of a list are wanted, by patterns for their facts, and by which fact they are counted."""

    patterns: Mapping[str, list[str]]
    by: str | None

    @property
    def is_empty(self) -> bool:
        """Return whether every document is wanted."""
        return not any(self.patterns.values())

    def keeps(self, facts: Facts) -> bool:
        """Return whether for each name with patterns, one of the values matches one of them."""
        return all(
            any(fnmatchcase(value, pattern) for value in facts.get(name, ()) for pattern in patterns)
            for name, patterns in self.patterns.items()
            if patterns
        )

    def show_counts(self, session: Session, found: Iterable[Facts]) -> None:
        """Print how many documents have each value of the fact `by`, the largest number first."""
        by = str(self.by)
        counted = Counter(value for facts in found for value in facts.get(by) or ["-"])
        columns: Columns = {by.upper(): lambda one: one[by], "COUNT": lambda one: one["count"]}
        session.show(({by: value, "count": number} for value, number in counted.most_common()), columns)


def _selection(
    mode: Annotated[Texts, Option("MODE", "Only this failure mode, such as gpu.lost or 'gpu.*'. Repeatable.")] = None,
    code: Annotated[Texts, Option("CODE", "Only this fault code, such as xid.79. Repeatable.")] = None,
    group: Annotated[Texts, Option("NAME", "Only nodes of this instance group. Repeatable.")] = None,
    rack: Annotated[Texts, Option("NAME", "Only nodes in this rack or other failure domain. Repeatable.")] = None,
    by: Annotated[Text, Option("KEY", f"Print counts instead, by one of: {', '.join(KEYS)}.")] = None,
) -> Selection:
    if by is not None and by not in KEYS:
        raise BadParameter(f"unknown --by: {by!r}; allowed: {', '.join(KEYS)}")
    return Selection({"mode": mode or [], "code": code or [], "group": group or [], "domain": rack or []}, by)


SelectionOptions = Annotated[Selection, Group(_selection)]


@dataclass(slots=True)
class NodeFacts:
    """The group, type and failure domains of the nodes of a stack; None reads nothing, as for an archive."""

    session: Session | None
    _read: dict[str, dict[str, Facts]] = field(default_factory=dict)

    def of(self, cluster: str, node: str | None) -> Facts:
        """Return the facts of a node about its place; a node that is not registered has none."""
        if self.session is None:
            return {}
        if cluster not in self._read:
            views = self.session.directory
            declared = views.cluster(cluster).config.domains
            self._read[cluster] = facts = {}
            for state in views.nodes(cluster):
                at, name = state.placement, state.key.node
                domains = failure_domains(cluster, name, at.domain, at.domains, declared)[:-1]
                facts[name] = _place(at.group, at.instance_type, [(one.kind, one.name) for one in domains])
        return self._read[cluster].get(node or "", {})


def _place(group: str | None, instance_type: str | None, domains: Iterable[tuple[str, str]]) -> Facts:
    named = list(domains)
    racks = [name for kind, name in named if kind == "rack"]
    return {**_listed(group=group, type=instance_type), "rack": racks, "domain": [name for _, name in named]}


def _listed(**facts: str | None) -> Facts:
    return {name: [value] if value else [] for name, value in facts.items()}


def node_facts(one: Node) -> Facts:
    """Return the facts of a node; a domain of no other kind is a rack, as in `failure_domains`."""
    named = one.domain is None or one.domain in one.domains.values()
    domains = one.domains if named else {**one.domains, "rack": str(one.domain)}
    return {
        **_place(one.group, one.instance_type, domains.items()),
        **_listed(cluster=one.cluster, node=one.node, status=one.status, severity=one.severity),
        "mode": [each.failure_mode for each in one.conditions],
        "code": list(dict.fromkeys(code for each in one.conditions for code in each.codes)),
        "day": [f"{each.since:%Y-%m-%d}" for each in one.conditions],
    }


def case_facts(one: Case, places: NodeFacts) -> Facts:
    """Return the facts of a case and of its node."""
    own = _listed(cluster=one.cluster, node=one.node, status=one.status, severity=one.severity)
    fault = _listed(mode=one.failure_mode, code=one.code, day=f"{one.opened_at:%Y-%m-%d}")
    return {**places.of(one.cluster, one.node), **own, **fault}


def entry_facts(one: Entry, places: NodeFacts) -> Facts:
    """Return the facts of a timeline entry and of its node."""
    metadata, data = one.event.metadata, one.event.data
    status, mode = getattr(data, "to", None), getattr(data, "failure_mode", None) or None
    own = _listed(cluster=metadata.cluster, node=metadata.node, status=status, severity=metadata.severity)
    return {
        **places.of(metadata.cluster, metadata.node),
        **own,
        **_listed(mode=mode, day=f"{metadata.occurred_at:%Y-%m-%d}"),
        "code": list(dict.fromkeys((data.code, *data.codes))) if isinstance(data, FaultData) else [],
    }


def show_selected(
    session: Session,
    read: Callable[[], Iterable[tuple[Shown, Facts]]],
    selection: Selection,
    columns: Columns,
    wait: int,
) -> None:
    """Print the documents that `read` returns with their facts, or their counts; `wait` as for `show_awaited`."""
    if selection.by is not None:
        selection.show_counts(session, (facts for _, facts in read()))
        return
    show_awaited(session, lambda: (one for one, _ in read()), columns, wait)


def selected(
    documents: Iterable[Any], facts: Callable[[Any], Facts], selection: Selection
) -> Iterator[tuple[Shown, Facts]]:
    """Yield the wanted documents with their facts."""
    for one in documents:
        known = facts(one)
        if selection.keeps(known):
            yield one, known
