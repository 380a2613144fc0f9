"""Compares nodes with their peers, at most once an hour, and opens and ends findings about outliers.

A finding opens for a node whose counters rise much faster than those of its peers in several comparisons in a row. The
finding ends when the counters rise normally, or when the node is out of service or has no recent counters. If the
policy lets the detector act when a finding opens, the finding also starts a fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Case
from faultbridge.domain.cluster.config import shard_of
from faultbridge.domain.conditions import is_another
from faultbridge.domain.edges import Actor, CaseStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.faults import Component, Severity
from faultbridge.domain.findings import RIGHT_WITHIN, Baseline, Detector, Finding, finding_id
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.errors import Conflict
from faultbridge.findings import gray_faults
from faultbridge.findings.judgments import Judgments
from faultbridge.findings.peer_totals import Total, read_totals
from faultbridge.ledger.append import Append
from faultbridge.ledger.queries import node_names, query_all
from faultbridge.log import log_cause
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.observe import observe
from faultbridge.pipeline.peers import Outlier, find_outliers, main_part, rise_per_hour
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage import findings as stored
from faultbridge.storage.writes import Absent, Equals, Put

INTERVAL = timedelta(hours=1)


class Comparison(NamedTuple):
    """The result of comparing one node with its peers by one detector.

    `baseline` has the node's current counters, for the next comparison. `outlier` states how far the node is above its
    peers; it is None if the node is no outlier. `compared` is False if the rise of the counters is unknown, as in the
    first comparison of a node. `component` is the component that caused more than half of the rise of an outlier, or
    None.
    """

    baseline: Baseline
    outlier: Outlier | None
    compared: bool
    component: Component | None = None


Comparisons = Mapping[tuple[str, str], Comparison]
"""The comparisons, by the name of the node and the name of the detector."""


@dataclass(frozen=True, slots=True)
class ComparePeers:
    """Compares the counters of a cluster's nodes with those of their peers, and opens and ends findings.

    Each cluster is compared at most once an hour. Only nodes in service with recent counters are compared.
    """

    append: Append
    rulebook: Rulebook
    detectors: Sequence[Detector]

    def __call__(self, cluster: str) -> int:
        """Compare the nodes of a cluster, and return the number of findings opened.

        Returns 0 without a comparison if the previous comparison is less than an hour old.
        """
        table, now = self.append.table, self.append.clock.now()
        first = table.get(stored.baselines_key(cluster, 0))
        if first is not None and now - stored.compared_at(first) < INTERVAL:
            return 0
        parts = table.get_many(stored.baselines_key(cluster, part) for part in range(stored.PARTS)).values()
        before = {node: known for row in parts for node, known in stored.read_baselines(row).nodes.items()}
        rules = rules_of(self.rulebook, cluster)
        states = self.append.read_many(NodeKey(cluster, node) for node in node_names(table, rules.config))
        totals = list(read_totals(table, states, self.detectors, now))
        compared = _compare(self.detectors, totals, before)
        if not self._store(cluster, compared, before, now):
            return 0
        return self._record(rules, {state.key.node: state for state in states}, compared)

    def _store(self, cluster: str, compared: Comparisons, before: Iterable[str], now: datetime) -> bool:
        """Store the counters for the next comparison; returns False if another run stored its counters first.

        The counters of the nodes are spread over several items. Item 0 is always written, because it stores the time of
        the comparison. Another item is written only if a node in `compared` or `before` (the previous comparison)
        belongs to this item.
        """
        nodes: dict[int, dict[str, dict[str, Baseline]]] = {shard_of(one, stored.PARTS): {} for one in before}
        nodes[0] = {}
        for (node, detector), one in compared.items():
            nodes.setdefault(shard_of(node, stored.PARTS), {}).setdefault(node, {})[detector] = one.baseline
        for part, held in sorted(nodes.items()):
            try:
                self.append.table.write(stored.baselines_put(cluster, part, stored.Baselines(now, held), now))
            except Conflict as conflict:
                log_cause("peers_not_compared", reason=f"another run compares them: {conflict}", cluster=cluster)
                return False
        return True

    def _record(self, rules: Rules, states: Mapping[str, NodeState], compared: Comparisons) -> int:
        """Open, end and mark the findings of a cluster; return how many were opened.

        A finding without a mark is marked as right if the case of its node proves the finding right (`_proves`).
        """
        rows = query_all(self.append.table, stored.finding_key(rules.config.cluster, "").pk, prefix=stored.FINDING)
        known = [stored.read_finding(row) for row in rows]
        live = {(one.node, one.detector): one for one in known if one.ended_at is None}
        windows = {one.name: one.windows for one in self.detectors}
        acting = gray_faults.acting_detectors(self.detectors, known, rules.policy.limits.finding_precision)
        opened = 0
        for (node, detector), one in compared.items():
            finding = live.get((node, detector))
            if finding is None and one.outlier is not None and one.baseline.streak >= windows[detector]:
                self._open(rules, node, detector, one, acts=detector in acting)
                opened += 1
            elif finding is not None and one.compared and one.outlier is None:
                self._end(rules, finding, "no longer above its peers", recovered=True)
        for key in sorted(live.keys() - compared.keys()):
            if key[0] in states:
                self._end(rules, live[key], "no longer compared: out of service, or without counters", recovered=False)
        by_name = {one.name: one for one in self.detectors}
        for finding in known:
            state, found_by = states.get(finding.node), by_name.get(finding.detector)
            if state is None or state.case is None or found_by is None:
                continue
            if _proves(state, state.case, finding, found_by):
                Judgments(self.append).mark_proved(finding, state.case.id)
        return opened

    def _open(self, rules: Rules, node: str, detector: str, compared: Comparison, *, acts: bool) -> None:
        cluster, outlier, component = rules.config.cluster, compared.outlier, compared.component
        if outlier is None:
            return

        def revise(state: NodeState, now: datetime) -> Transition:
            own = (outlier.value, outlier.median, outlier.score, outlier.peers)
            found = Finding(
                finding_id(cluster, node, detector, now), cluster, node, detector, now, *own, component=component
            )
            text = f"{detector}: {own[0]} an hour, the median of {own[3]} peers is {own[1]}; {_then(found, acts=acts)}"
            note = entry_builder.note(kind="shadow", text=text, at=now, facts=_facts(found), stage="begun")
            written = Put(stored.finding_item(found, now), when=Absent())
            return self._observe(state, note, written, [gray_faults.began(found)] if acts else [], rules, now)

        self.append(NodeKey(cluster, node), revise, actor=Actor.SWEEP)

    def _end(self, rules: Rules, finding: Finding, reason: str, *, recovered: bool) -> None:
        """End a finding. If the node has `recovered`, also end the fault that was reported for the finding.

        A node that left service has not recovered: without load, its counters do not rise, even if it is defective.
        """

        def revise(state: NodeState, now: datetime) -> Transition:
            row = self.append.table.get(stored.finding_key(finding.cluster, finding.id))
            if row is None or stored.read_finding(row).ended_at is not None:
                return Transition(state)
            ended = replace(stored.read_finding(row), ended_at=now)
            text = f"{finding.detector}: {reason}"
            note = entry_builder.note(kind="shadow", text=text, at=now, facts=_facts(ended), stage="over")
            unchanged = Equals("updated_at", str(row["updated_at"]))
            written = Put(stored.finding_item(ended, now), when=unchanged)
            return self._observe(
                state, note, written, gray_faults.ended(ended, state, now) if recovered else (), rules, now
            )

        self.append(NodeKey(finding.cluster, finding.node), revise, actor=Actor.SWEEP)

    def _observe(
        self, state: NodeState, note: Draft, written: Put, arrivals: Sequence[Arrival], rules: Rules, now: datetime
    ) -> Transition:
        """Return a transition that stores a finding and an entry, and may start or end a fault of the node.

        `written` stores the finding. `note` is the entry. `arrivals` has the observation that starts or ends the fault;
        it is empty if no fault starts or ends.
        """
        if not arrivals:
            return Transition(state, (note,), (written,))
        observed = observe(state, arrivals, rules=rules, catalog=self.rulebook.catalog(), now=now)
        return Transition(observed.state, (note, *observed.drafts), (written,))


def _compare(
    detectors: Sequence[Detector], totals: Sequence[Total], before: Mapping[str, Mapping[str, Baseline]]
) -> Comparisons:
    """Compare the nodes of each group by each detector; return the results by node and detector.

    `before` has the counters of the previous comparison. `baseline.streak` of a result counts the comparisons in a row
    in which the node was an outlier.
    """
    compared: dict[tuple[str, str], Comparison] = {}
    for detector in detectors:
        own = [one for one in totals if one.detector == detector.name]
        for group in sorted({one.group for one in own}):
            members = [one for one in own if one.group == group]
            rises = {one.node: rise_per_hour(before.get(one.node, {}).get(detector.name), one.now) for one in members}
            outliers = find_outliers(detector, {node: rise for node, rise in rises.items() if rise is not None})
            for one in members:
                last, outlier = before.get(one.node, {}).get(detector.name), outliers.get(one.node)
                streak = (last.streak if last else 0) + 1 if outlier else 0
                known = rises[one.node] is not None
                baseline = replace(one.now, streak=streak, parts=one.now.parts if outlier else {})
                component = one.components.get(main_part(last, one.now) or "") if outlier else None
                compared[one.node, detector.name] = Comparison(baseline, outlier, known, component)
    return compared


def _proves(state: NodeState, case: Case, finding: Finding, detector: Detector) -> bool:
    """Return whether a case proves a finding right.

    The case must be about a fault of severity `error` or worse whose code the detector lists. It must open after the
    finding, at most `RIGHT_WITHIN` later. The result is False if the finding is already marked as right or wrong, if
    the case ever waited for an incident, if the two are about different components, or if a new instance or boot
    started between them.
    """
    if CaseStatus.ABSORBED.value in case.marks or not detector.is_proved_by(case.code):
        return False
    incarnation = state.incarnation
    if finding.component is not None and is_another(finding.component, case.component, state.devices):
        return False
    if incarnation is not None and finding.opened_at < incarnation.since <= case.opened_at:
        return False
    in_time = finding.opened_at < case.opened_at <= finding.opened_at + RIGHT_WITHIN
    return finding.mark is None and in_time and case.severity.rank >= Severity.ERROR.rank


def _then(finding: Finding, *, acts: bool) -> str:
    return f"reported as the fault {gray_faults.fault_code(finding.detector)}" if acts else "nothing is done"


def _facts(finding: Finding) -> dict[str, object]:
    return {
        "finding_id": finding.id,
        "detector": finding.detector,
        "value": finding.value,
        "median": finding.median,
        "peers": finding.peers,
    }
