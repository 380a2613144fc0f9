"""The guards of shared causes and slow signals, each left out."""

from __future__ import annotations

from tests.simulation.mutants.late_fault_guards import LATE_FAULT_GUARDS
from tests.simulation.mutants.planted_bug import PlantedBug, planted

_LIFE_CYCLE = "pipeline/correlate/life_cycle.py"
_EXEMPT = "pipeline/correlate/exempt_nodes.py"
CORRELATION_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _LIFE_CYCLE,
        "_close_if_over",
        "a newer fault of a node hides an older one that continues its incident",
        "for at in (one.since, one.first or one.since)",
        "for at in (one.since,)",
    ),
    planted(
        _LIFE_CYCLE,
        "_close_if_over",
        "a fault that began long before an incident continues it after its end",
        " if at >= incident.evidence_since]",
        "]",
    ),
    planted(
        "incidents/entries.py",
        "_data",
        "the phases of an incident that ended in the past last until now",
        "after.closed_at or at)",
        "at)",
    ),
    planted(
        "domain/cluster/incidents.py",
        "Hold.covers",
        "a node of unknown place is repaired for a fault that an incident may explain",
        "inside = self.domain in domains or not is_placed(domains)",
        "inside = self.domain in domains",
    ),
    planted(
        "incidents/held.py",
        "HeldCases._append",
        "a case that waits for an incident does not name it as the cause",
        "moved_by(moved.drafts, cause)",
        "moved.drafts",
    ),
    planted(
        "pipeline/decide/case_moves.py",
        "may_be_shared",
        "a node that needs an operator pages before its incident",
        "return any(condition.family is not None for condition in state.active())",
        "return False",
    ),
    planted(
        "pipeline/decide/case_moves.py",
        "continue_alone",
        "a case is escalated before the other nodes of its rack have reported",
        "if now >= case.opened_at + after else decided",
        "",
    ),
    planted(
        "pipeline/decide/case_moves.py",
        "continue_alone",
        "a fault that comes back before the verification replaces the instance",
        "verified = replace(alone, repair_action=RepairAction.VERIFY)",
        "verified = alone",
    ),
    planted(
        "pipeline/correlate/held_cases.py",
        "absorb",
        "a case that needs support is repaired after its incident",
        "case.status is CaseStatus.ESCALATED or case.awaits_correlation",
        "case.status is CaseStatus.ESCALATED",
    ),
    planted(
        "pipeline/correlate/held_cases.py",
        "absorb",
        "a case passes to another incident without an entry",
        "return move_case(Transition(state), replace(case, incident=incident.id, reason=kept), now, reason)",
        "return Transition(replace(state, case=replace(case, incident=incident.id, reason=kept)))",
    ),
    planted(
        "pipeline/correlate/held_cases.py",
        "absorb",
        "a case that needs support forgets why when it passes to another incident",
        "kept = case.reason if case.held_from is CaseStatus.ESCALATED else reason",
        "kept = reason",
    ),
    planted(
        "incidents/correlate.py",
        "Correlate._hold_and_release",
        "no correlation escalates the cases of single nodes",
        "        self.held.escalate(control, incidents, rows, now)\n",
        "",
    ),
    planted(
        "incidents/held.py",
        "HeldCases.escalate",
        "a case that could not be absorbed yet pages beside its incident",
        "for node in due if node not in explained",
        "for node in due",
    ),
    planted(
        "repair/node_orders.py",
        "_requeue_escalated",
        "an ordered replacement of a node that is still compared with others is forgotten",
        "not (case.status is CaseStatus.ESCALATED or case.awaits_correlation)",
        "case.status is not CaseStatus.ESCALATED",
    ),
    planted(
        "ledger/causes.py",
        "_causes",
        "the chain of a held case ends at its incident",
        "before = _neighbor(table, item, -1) if continues_case(_event(item), _event(found)) else None",
        "before = None",
    ),
    planted(
        "ledger/causes.py",
        "_effects_of",
        "the effects of a fault end where its case waits for an incident",
        "    if after and found and continues_case(_event(after), _event(found)):",
        "    if False:",
    ),
    planted(
        "ops/react.py",
        "React._process",
        "repairs start although the incidents could not be updated",
        "        if correlated:\n",
        "        if True:\n",
    ),
    planted(
        _LIFE_CYCLE,
        "_members",
        "an old fault belongs to an incident",
        "incident.domain in one.domains and one.since >= incident.evidence_since",
        "incident.domain in one.domains",
    ),
    planted(
        _LIFE_CYCLE,
        "_change",
        "an incident that learns which server its nodes lost keeps it to itself",
        "return incident.nodes, incident.domain, incident.status, incident.subject",
        "return incident.nodes, incident.domain, incident.status",
    ),
    planted(
        _LIFE_CYCLE,
        "correlate",
        "a fault that comes and goes opens one incident after another",
        "held = snapshot.without(exempt_nodes(over, limits, now))",
        "held = snapshot",
    ),
    planted(
        _LIFE_CYCLE,
        "_members",
        "an expired incident forgets a node as soon as it is healthy once",
        "known = frozenset((*incident.nodes, *recently_left(incident, incident.nodes, limits, now)))",
        "known = frozenset(incident.nodes)",
    ),
    planted(
        _EXEMPT,
        "recently_left",
        "a node that is healthy for long opens no incident again",
        "if name not in affected and now < at + quiet}",
        "if name not in affected}",
    ),
    planted(
        "domain/cluster/state.py",
        "Control.incident_of",
        "a further incident of the domain delays the repair of an exempt node",
        "held = [family for family in families if family not in exempt]",
        "held = list(families)",
    ),
    planted(
        "incidents/affected_nodes.py",
        "_affected",
        "the fault of an instance that is released already affects its node",
        'NodeStatus(str(row["status"])) in _WITHOUT_INSTANCE',
        "False",
    ),
    planted(
        _LIFE_CYCLE,
        "correlate",
        "a fault after an unnoticed quiet period has the age of the incident before it",
        "live = [_close_if_over(one, snapshot, limits, now) for one in known]",
        "live = list(known)",
    ),
    planted(
        "pipeline/correlate/held_cases.py",
        "release",
        "a case that an incident held is repaired without its waiting period",
        "wait = timedelta(seconds=rule_of_case(state, case, policy).wait_seconds if faulty else 0)",
        "wait = timedelta(0)",
    ),
    planted(
        "storage/projections.py",
        "_families",
        "a later fault without a remote end hides the server",
        "if remote := _remote(condition):\n                subjects[condition.family.value] = remote",
        'subjects[condition.family.value] = _remote(condition) or ""',
    ),
)
"""The guards of correlation; `tests/pipeline/correlate` and `tests/scenarios/incidents` notice each of them."""

REPEATED_REPAIR_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        "domain/cluster/state.py",
        "Control.incident_of",
        "a failed repair is repeated while an incident of its failure domain is open",
        "        if repeated_since is not None:\n",
        "        if False:\n",
    ),
    planted(
        "domain/cluster/state.py",
        "Control.incident_of",
        "a failed repair waits for one incident of its failure domain after another",
        "*(hold.family for hold in live if hold.family not in expired)",
        "*(hold.family for hold in live)",
    ),
    planted(
        "repair/attempt/next_action.py",
        "try_next_action",
        "a reset that failed because of a dead rack becomes a reboot",
        "waits = wait_for_incident(context, reason, draft, incidents=incidents, repair_action=at_least)",
        "waits = None",
    ),
    planted(
        "incidents/held.py",
        "HeldCases.release",
        "a failed repair is released while its incident is open",
        " | explained.keys()",
        "",
    ),
    planted(
        "pipeline/correlate/held_cases.py",
        "release",
        "a successor that failed because of a dead rack is replaced, not verified, after the incident",
        "repair_action=case.repair_action if faulty else RepairAction.VERIFY,",
        "repair_action=case.repair_action,",
    ),
    planted(
        "repair/attempt/next_action.py",
        "try_next_action",
        "a failed repair is repeated in a failure domain whose incident outlasts its maximum age",
        " and incidents.expired is not None:",
        " and False:",
    ),
    planted(
        "repair/attempt/next_action.py",
        "try_next_action",
        "an expired incident stops the repairs of nodes that it never affected",
        "if is_replaced(context.state) and ",
        "if ",
    ),
    planted(
        "repair/steps/close_case.py",
        "_close",
        "a reboot that failed because of a dead rack is recorded as a replacement",
        "replaced=is_replaced(state)",
        "replaced=state.incarnation is not None and state.incarnation.since >= case.opened_at",
    ),
)
"""The guards of failed repairs; `tests/scenarios/incidents/test_failed_repairs.py` notices each of them."""

_MISSING, _MONITOR = "ops/missing_heartbeats.py", "ingest/heartbeat_monitor.py"
HEARTBEAT_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _MISSING,
        "report_missing_heartbeats",
        "silent nodes are faults although no records arrive",
        "for node, last in {} if intake.failed else (overdue | again).items():",
        "for node, last in (overdue | again).items():",
    ),
    planted(
        _MISSING,
        "report_missing_heartbeats",
        "a silent node that returned to service without a heartbeat is never checked again",
        "(overdue | again).items():",
        "overdue.items():",
    ),
    planted(
        _MONITOR,
        "_watched_since",
        "a missing heartbeat that a reboot ended never counts again",
        "return max(last, state.floor or last, evicted, ended.ended_at if ended else last)",
        "return last",
    ),
    planted(
        _MISSING,
        "_limited",
        "every silent node is probed",
        "len(mine) > MAX_PROBED:",
        "False:",
    ),
    planted(
        _MISSING,
        "report_missing_heartbeats",
        "a node that is checked again for heartbeats is not probed",
        "intake.last_arrival, probe_some):",
        "intake.last_arrival, probe_some if node in overdue else unprobed):",
    ),
    planted(
        _MONITOR,
        "HeartbeatMonitor.check",
        "a node whose missing heartbeat is recorded is probed in every sweep",
        " or _is_recorded(state, due):",
        ":",
    ),
    planted(
        _MISSING,
        "_is_incident",
        "no node of many silent ones is probed although they are no incident",
        "return silent > MAX_PROBED and silent >= limits.nodes and silent * 100 >= limits.percent * nodes",
        "return silent > MAX_PROBED",
    ),
    planted(
        _MISSING,
        "_is_incident",
        "the instances of nodes that become an incident are probed",
        "return silent > MAX_PROBED and silent >= limits.nodes and silent * 100 >= limits.percent * nodes",
        "return False",
    ),
    planted(
        "ops/silent_instances.py",
        "ProbeInstance.__call__",
        "a node that an incident covers is probed",
        "if self._is_covered(state, config):",
        "if False:",
    ),
    planted(
        "ops/silent_instances.py",
        "ProbeInstance._readiness",
        "an orchestrator that does not answer is asked about every silent node",
        "self._pauses[config.cluster] = now + PAUSE",
        "pass",
    ),
    planted(
        "adapters/slurm/orchestrator.py",
        "SlurmOrchestrator.readiness",
        "a node that does not respond to Slurm is ready",
        """if found is not None and ("*" in found.state or not states.isdisjoint(_LOST)):""",
        "if found is None:",
    ),
    planted(
        _MONITOR,
        "_is_conclusive",
        "a node is silent before anything shows that its heartbeat would have arrived",
        "return arrived is None or arrived > last + timeout * WRITE_AFTER + HEARTBEAT_GRACE",
        "return True",
    ),
)
"""The guards of missing heartbeats; `tests/ops`, `tests/ingest` and `tests/scenarios/incidents` notice each of them."""

INTAKE_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _MONITOR,
        "HeartbeatMonitor.intake_failed",
        "a missing canary holds all repairs while heartbeats arrive",
        "if heartbeat is not None and now - heartbeat <= HEARTBEAT_GRACE:",
        "if False:",
    ),
    planted(
        _MONITOR,
        "HeartbeatMonitor.intake_failed",
        "a failed intake is found only after two canaries more",
        "if canary is None or now - canary <= CANARY_OVERDUE:",
        "if canary is None or now - canary <= 2 * CANARY_MISSING:",
    ),
    planted(
        _LIFE_CYCLE,
        "_is_known",
        "a batch of entries ends the incident of a failed intake",
        "return snapshot.knows_intake or incident.domain.kind is not DomainKind.INTAKE",
        "return True",
    ),
    planted(
        "incidents/correlate.py",
        "Correlate.__call__",
        "an incident about the intake that an operator closed opens again",
        "silent, intake.last_arrival or now)",
        "silent, now)",
    ),
    planted(
        "domain/cluster/incidents.py",
        "Hold.covers",
        "a failed intake holds only silent nodes",
        "every_node = self.domain.kind is DomainKind.INTAKE",
        "every_node = False",
    ),
)
"""The guards of the intake; `tests/scenarios/incidents/test_missing_heartbeats.py` notices each of them."""

_PEERS = "findings/compare_peers.py"
FINDING_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        "findings/compare_peers.py",
        "_proves",
        "a hard fault of another device proves a finding right",
        "if finding.component is not None and is_another(finding.component, case.component, state.devices):",
        "if False:",
    ),
    planted(
        "pipeline/peers.py",
        "main_part",
        "a finding of several devices names one of them",
        "if 2 * rise > after.total - before.total",
        "if rise > 0",
    ),
    planted(
        "findings/gray_faults.py",
        "acting_detectors",
        "a detector acts although the policy has no bar",
        "    if bar is None:\n        return frozenset()",
        "    bar = bar or 0",
    ),
    planted(
        "findings/gray_faults.py",
        "acting_detectors",
        "a detector acts after one finding that was marked right",
        "if one.right + one.wrong >= MIN_MARKED and",
        "if one.right + one.wrong >= 1 and",
    ),
    planted(
        _PEERS,
        "ComparePeers._record",
        "one window above the peers is a finding",
        "one.baseline.streak >= windows[detector]",
        "True",
    ),
    planted(
        _PEERS,
        "ComparePeers._record",
        "a node that is above its peers for hours has a finding for each hour",
        "if finding is None and one.outlier is not None and",
        "if one.outlier is not None and",
    ),
    planted(
        _PEERS,
        "ComparePeers._end",
        "the fault of a finding ends because its isolated node has no load",
        "gray_faults.ended(ended, state, now) if recovered else ()",
        "gray_faults.ended(ended, state, now)",
    ),
)
"""The guards of findings; `tests/findings` notices each of them."""

_RELAPSE = "pipeline/decide/relapse.py"
PROBATION_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        "domain/probation.py",
        "Probation.is_relapse",
        "another fault of the same family is no relapse",
        "(self.family is not None and condition.family is self.family)",
        "False",
    ),
    planted(
        "domain/probation.py",
        "Probation.is_relapse",
        "a new instance with a fault at the same address is a relapse of the old device",
        "shared = self.repair_action is RepairAction.REPLACE_NODE or",
        "shared = False or",
    ),
    planted(
        _RELAPSE,
        "_find_relapse",
        "a fault after the probation is a relapse",
        "now < one.until and",
        "",
    ),
    planted(
        _RELAPSE,
        "respond",
        "a relapse is repaired with the action that did not last",
        "stronger = next_higher(probation.repair_action)",
        "stronger = probation.repair_action",
    ),
    planted(
        _RELAPSE,
        "respond",
        "a fault after diagnostics, which change nothing, raises the repair action",
        "if probation is None or required is None or not probation.repair_action.needs_slot:",
        "if probation is None or required is None:",
    ),
)
"""The guards of probation; `tests/scenarios/threads/test_relapses.py` and `tests/pipeline` notice each of them."""

_EXPIRE = "pipeline/fold/expire.py"
COVERAGE_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _EXPIRE,
        "end_verified",
        "a verification ends a fault that it does not cover",
        "proven = covers(condition.code) and",
        "proven =",
    ),
    planted(
        _EXPIRE,
        "end_verified",
        "a verification ends a covered fault that requires a stronger repair action",
        '(sufficient or "verified" in condition.ends_on)',
        "True",
    ),
    planted(
        "domain/catalog.py",
        "Catalog.covers",
        "an unknown verifier covers every fault",
        "self.coverage.get(verifier, {})",
        'self.coverage.get(verifier, {0: ("*",)})',
    ),
)
"""The guards of coverage; `tests/scenarios/repair/test_coverage.py` and `tests/pipeline` notice each of them."""

SHARED_CAUSE_GUARDS = (
    *CORRELATION_GUARDS,
    *LATE_FAULT_GUARDS,
    *REPEATED_REPAIR_GUARDS,
    *HEARTBEAT_GUARDS,
    *INTAKE_GUARDS,
    *FINDING_GUARDS,
    *PROBATION_GUARDS,
    *COVERAGE_GUARDS,
)
