"""Compares nodes, and devices within a job, with their peers, and opens and ends findings about outliers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import asdict

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import Rules
from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.observe import observe
from faultbridge.decide.peers import find_outliers, main_part, rise_per_hour
from faultbridge.model.cases import Case
from faultbridge.model.cluster.config import shard_of
from faultbridge.model.conditions import is_another
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, CaseStatus, NoteKind
from faultbridge.model.errors import Conflict
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import NODE_COMPONENT, Clear, Component, Fault
from faultbridge.model.findings import RIGHT_WITHIN, Baseline, Detector, Finding, finding_id, precision_of
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import findings as stored
from faultbridge.model.storage import keys
from faultbridge.model.storage.counter_samples import STORED_AGAIN_AFTER, SampleSet, read_samples
from faultbridge.model.storage.jobs import progress_key, read_progress
from faultbridge.model.storage.writes import Absent, Equals, Put
from faultbridge.model.values import replace
from faultbridge.record.append import Append
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import node_names
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.findings.job_peers import Comparison, Comparisons, compare_job, measure
from faultbridge.repair.findings.judgments import Judgments
from faultbridge.repair.findings.recurrence import record_recurrences
from faultbridge.repair.jobs.jobs import Jobs

# Gray faults: reports the findings of a detector as faults, if the detector is precise enough.
#
# The precision is the share of findings marked right among all marked findings. The policy may set a minimum precision.
# If the policy sets none, or the detector has a lower precision or fewer than 10 marked findings, its findings are only
# recorded.

SOURCE = "peer-comparison"
MIN_MARKED = 10
"""Minimum number of marked findings of a detector; with fewer, its findings start no fault."""


def fault_code(detector: str) -> str:
    """Return the fault code of a detector's findings: `gray.` and the name of the detector."""
    return f"gray.{detector}"


def acting_detectors(detectors: Iterable[Detector], findings: Iterable[Finding], bar: int | None) -> frozenset[str]:
    """Return the detectors precise enough to act: at least 10 marks, `bar` percent of them right."""
    if bar is None:
        return frozenset()
    known = tuple(findings)
    recorded = (precision_of(one.name, known) for one in detectors)
    return frozenset(
        one.detector
        for one in recorded
        if one.right + one.wrong >= MIN_MARKED and one.right * 100 >= bar * (one.right + one.wrong)
    )


def began(finding: Finding) -> Arrival:
    """Return the observation (`Arrival`) that starts the fault of a finding."""
    fault = Fault(
        SOURCE,
        fault_code(finding.detector),
        NODE_COMPONENT,
        f"{finding.evidence}.",
        observed_at=finding.opened_at,
        attributes={"finding": finding.id},
    )
    return Arrival(fault, finding.opened_at, finding.id)


def ended_faults(finding: Finding, state: NodeState, now: datetime) -> tuple[Arrival, ...]:
    """Return the observation that ends the fault of a finding; empty if the node has no such active fault."""
    code = fault_code(finding.detector)
    if not any(code in one.codes for one in state.active()):
        return ()
    clear = Clear(SOURCE, code, NODE_COMPONENT, "no longer far from its peers", observed_at=now)
    return (Arrival(clear, now, f"{finding.id}-ended"),)


# Peer totals: adds up the error counters that a detector compares, for each node in service.
#
# The counters come from the last counter samples that the table stores.

STALE = timedelta(minutes=30)
"""Counters that no source reported for this time are not compared."""


class Total(Struct, frozen=True):
    """The sum of a detector's counters on one node.

    - `group` names the node's group and instance type. The other nodes with an equal `group` are the node's peers.
    - `now` has the sum, the time of the report, and the sum of each port or device by key (`now.parts`).
    - `components` maps each key of `now.parts` to the component.
    """

    node: str
    group: str
    detector: str
    now: Baseline
    components: Mapping[str, Component] = field(default_factory=dict)


def read_totals(
    table: Table, states: Iterable[NodeState], detectors: Iterable[Detector], now: datetime
) -> Iterator[Total]:
    """Yield each detector's fresh counter sums of each serving node's current instance."""
    serving = [state for state in states if state.status is not None and state.status.in_service and state.incarnation]
    by_source: dict[str, list[Detector]] = {}
    for detector in detectors:
        by_source.setdefault(detector.source, []).append(detector)
    for source, own in by_source.items():
        found = table.get_many(keys.counter_samples(state.key, source) for state in serving)
        for state in serving:
            row = found.get(keys.counter_samples(state.key, source))
            if row is not None:
                yield from _totals(state, read_samples(row), own, now)


def _totals(state: NodeState, samples: SampleSet, detectors: Iterable[Detector], now: datetime) -> Iterator[Total]:
    incarnation, placement, at = state.incarnation, state.placement, _reported_at(samples, now)
    if incarnation is None or samples.instance != incarnation.instance or at is None:
        return
    group = f"{placement.group or ''}/{placement.instance_type or ''}"
    for detector in detectors:
        parts: dict[str, int] = {}
        for key, port in samples.ports.items():
            counters = (port.values.get(name) for name in detector.counters)
            counted = [value for value in counters if isinstance(value, int)]
            if counted:
                parts[key] = sum(counted)
        if parts:
            baseline = Baseline(at, f"{samples.instance}/{samples.boot}", sum(parts.values()), parts=parts)
            components = {key: samples.ports[key].component for key in parts}
            yield Total(state.key.node, group, detector.name, baseline, components)


def _reported_at(samples: SampleSet, now: datetime) -> datetime | None:
    """Return when a node's counter samples were last reported, or None if that is too long ago.

    Samples without a digest (a hash of their values) are too old 30 minutes after they were stored. Samples with a
    digest are stored again only every two hours while their values stay the same. They therefore count as reported now
    if they were stored 30 minutes to two and a half hours ago.
    """
    age = now - samples.at
    if age < STALE:
        return samples.at
    return now if samples.digest is not None and age < STORED_AGAIN_AFTER + STALE else None


INTERVAL, JOB_INTERVAL = timedelta(hours=1), timedelta(minutes=2)
JOBS = stored.PARTS
"""The item of baselines that has the slow devices of jobs."""

FORGET = 5
"""After so many comparisons in which no device of a node was slow, nothing about the node is stored."""


class ComparePeers(Struct, frozen=True):
    """Compares a cluster's nodes and the devices of its jobs with their peers, and opens and ends findings."""

    append: Append
    rulebook: Rulebook
    detectors: Sequence[Detector]
    of_jobs: Sequence[Detector] = ()

    def compare(self, cluster: str) -> int:
        """Compare the nodes at most once an hour, the jobs every two minutes; return the number of findings opened."""
        return self._compare_jobs(cluster) + self._compare_nodes(cluster)

    def _compare_jobs(self, cluster: str) -> int:
        table, now = self.append.table, self.append.clock.now()
        known = Jobs(self.append)
        running = [one for one in known.rows(cluster) if one.ended_at is None] if self.of_jobs else []
        row = table.get(stored.baselines_key(cluster, JOBS)) if self.of_jobs else None
        before = stored.read_baselines(row).nodes if row is not None else {}
        if (not running and not before) or (row is not None and now - stored.compared_at(row) < JOB_INTERVAL):
            return 0
        compared = Comparisons()
        for job in known.read(cluster, running):
            progress = table.get(progress_key(cluster, job.id))
            measured = measure(table, job, read_progress(progress) if progress else None, now)
            compared |= compare_job(self.of_jobs, job, measured, before)
        busy = {node for one in running for node in one.nodes}
        held = {node: {**own} for node, own in before.items() if node in busy}
        for (node, detector), one in compared.items():
            held.setdefault(node, {})[detector] = one.baseline
            if one.baseline.streak <= -FORGET:
                del held[node][detector]
        if not self._write(cluster, JOBS, {node: own for node, own in held.items() if own}, now):
            return 0
        return self._record(rules_of(self.rulebook, cluster), self.of_jobs, compared, lambda node: node not in busy)

    def _compare_nodes(self, cluster: str) -> int:
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
        nodes = {state.key.node: state for state in states}
        known = Judgments(self.append).list([cluster], ended=True)
        opened = record_recurrences(self.append, rules.config, nodes, known)
        opened += self._record(rules, self.detectors, compared, nodes.__contains__)
        self._mark_proved(cluster, nodes)
        return opened

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
        return all(self._write(cluster, part, held, now) for part, held in sorted(nodes.items()))

    def _write(self, cluster: str, part: int, held: Mapping[str, Mapping[str, Baseline]], now: datetime) -> bool:
        try:
            self.append.table.write(stored.baselines_put(cluster, part, stored.Baselines(now, held), now))
        except Conflict as conflict:
            log_cause("peers_not_compared", reason=f"another run compares them: {conflict}", cluster=cluster)
            return False
        return True

    def _record(
        self, rules: Rules, detectors: Sequence[Detector], compared: Comparisons, has_left: Callable[[str], bool]
    ) -> int:
        """Open and end the findings of detectors; return how many were opened.

        A finding about a node that was not compared ends if the node `has_left`.
        """
        known, opened = Judgments(self.append).list([rules.config.cluster], ended=True), 0
        windows = {one.name: one.windows for one in detectors}
        of_peers = [one for one in known if one.ended_at is None and one.detector in windows]
        live = {(one.node, one.detector): one for one in of_peers}
        acting = acting_detectors(detectors, known, rules.policy.limits.finding_precision)
        for (node, detector), one in compared.items():
            finding = live.get((node, detector))
            if finding is None and one.outlier is not None and one.baseline.streak >= windows[detector]:
                self._open(rules, node, detector, one, acts=detector in acting)
                opened += 1
            elif finding is not None and one.compared and one.outlier is None:
                self._end(rules, finding, "no longer far from its peers", recovered=True)
        for key in sorted(live.keys() - compared.keys()):
            if has_left(key[0]):
                reason = "no longer compared: out of service, without counters, or its job ended"
                self._end(rules, live[key], reason, recovered=False)
        return opened

    def _mark_proved(self, cluster: str, states: Mapping[str, NodeState]) -> None:
        by_name = {one.name: one for one in (*self.detectors, *self.of_jobs)}
        for finding in Judgments(self.append).list([cluster], ended=True):
            state, found_by = states.get(finding.node), by_name.get(finding.detector)
            if state is None or state.case is None or found_by is None:
                continue
            if _proves(state, state.case, finding, found_by):
                Judgments(self.append).mark_proved(finding, state.case.id)

    def _open(self, rules: Rules, node: str, detector: str, compared: Comparison, *, acts: bool) -> None:
        cluster, outlier, component = rules.config.cluster, compared.outlier, compared.component
        if outlier is None:
            return

        def revise(state: NodeState, now: datetime) -> Transition:
            if state.status is None or not state.status.in_service:
                return Transition(state)
            name, own = finding_id(cluster, node, detector, now), asdict(outlier)
            rank = compared.ranks[0] if len(compared.ranks) == 1 else None
            found = Finding(name, cluster, node, detector, now, **own, component=component, rank=rank)
            found = replace(found, evidence=compared.evidence)
            effect = f"reported as the fault {fault_code(detector)}" if acts else "nothing is done"
            text = f"{detector}: {compared.evidence}; {effect}"
            note = entry_builder.note(kind=NoteKind.SHADOW, text=text, at=now, facts=_facts(found), stage="begun")
            written = Put(stored.finding_item(found, now), when=Absent())
            return self._observe(state, note, written, [began(found)] if acts else [], rules, now)

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
            note = entry_builder.note(kind=NoteKind.SHADOW, text=text, at=now, facts=_facts(ended), stage="over")
            unchanged = Equals("updated_at", str(row["updated_at"]))
            written = Put(stored.finding_item(ended, now), when=unchanged)
            return self._observe(state, note, written, ended_faults(ended, state, now) if recovered else (), rules, now)

        self.append(NodeKey(finding.cluster, finding.node), revise, actor=Actor.SWEEP)

    def _observe(
        self, state: NodeState, note: Draft, written: Put, arrivals: Sequence[Arrival], rules: Rules, now: datetime
    ) -> Transition:
        """Return a transition that stores a finding and its note, and starts or ends its fault."""
        if not arrivals:
            return Transition(state, (note,), (written,))
        observed = observe(state, arrivals, rules=rules, catalog=self.rulebook.catalog(), now=now)
        return Transition(observed.state, (note, *observed.drafts), (written,))


def _compare(
    detectors: Sequence[Detector], totals: Sequence[Total], before: Mapping[str, Mapping[str, Baseline]]
) -> Comparisons:
    """Compare the nodes of each group; `baseline.streak` counts the comparisons as an outlier in a row."""
    compared = Comparisons()
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
                shown = outlier and f"{outlier.value} an hour, the median of {outlier.peers} peers is {outlier.median}"
                compared[one.node, detector.name] = Comparison(baseline, outlier, known, component, shown or "")
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


def _facts(finding: Finding) -> dict[str, object]:
    return {
        "finding_id": finding.id,
        "detector": finding.detector,
        "value": finding.value,
        "median": finding.median,
        "peers": finding.peers,
        "rank": finding.rank,
    }
