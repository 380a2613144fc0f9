"""Documents: clusters, nodes, cases, entries and rejects as JSON, identical in the CLI and the API."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from msgspec import to_builtins

from faultbridge.decide.entry_builder import component_data, gpu_time_lost
from faultbridge.decide.required_order import no_repair
from faultbridge.model.cases import Approval
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import Breaker, ProviderCondition
from faultbridge.model.conditions import Condition
from faultbridge.model.event_data import plain
from faultbridge.model.findings import Finding
from faultbridge.model.nodes import Ignored, NodeState, Probation
from faultbridge.model.offenders import Offender
from faultbridge.model.storage.rejects import Reject
from faultbridge.model.times import to_text
from faultbridge.record.timeline import Line, is_late
from faultbridge.repair.registry.views import CaseView, ClusterView, IncidentView, PageView

Document = dict[str, Any]


def cluster_document(view: ClusterView) -> Document:
    """Return a cluster as a JSON document."""
    config = view.config
    return {
        "cluster": config.cluster,
        "status": view.state.status,
        "counts": dict(view.state.counts),
        "incidents": list(view.state.incidents),
        "provider_conditions": [_provider_condition(one) for one in view.state.provider],
        "target": max(config.expected, view.state.target),
        "expected": config.expected,
        "mode": config.mode,
        "repair_owner": config.repair_owner,
        "provider": config.provider,
        "orchestrator": config.orchestrator,
        "verifier": config.verifier,
        "restarter": config.restarter,
        "eks_cluster": config.eks_cluster,
        "hyperpod_cluster": config.hyperpod_cluster,
        "slurm_head_node": config.slurm_head_node or None,
        "slurm_rest": config.slurm_rest or None,
        "slurm_requeue": config.slurm_requeue,
        "job_callbacks": list(config.job_callbacks),
        "instance_types": list(config.instance_types),
        "subnets": list(config.subnets),
        "domains": [{"type": one.kind, "name": one.name, "nodes": one.nodes} for one in config.domains],
        "spares": config.spares,
        "spare_group": config.spare_group,
        "pool": dict(Counter(str(spare.status) for spare in view.pool)),
        "provider_role": config.provider_role.arn if config.provider_role else None,
        "node_roles": list(config.node_roles),
        "shards": config.shards,
        "policy": config.policy,
        "version": config.version,
        "paused": view.control.paused,
        "maintenance_until": _text_of(config.maintenance_until) if config.maintenance_until else None,
        "damped_sources": {
            one.source: _text_of(one.until) for one in config.damped_sources if one.cluster and not one.over
        },
        "breakers": [_breaker(name, one) for name, one in sorted(view.control.breakers.items())],
        "holders": {case: _text_of(since) for case, since in view.control.holders.items()},
        "no_capacity_until": {group: _text_of(until) for group, until in view.control.no_capacity_until.items()},
    }


def _breaker(name: str, breaker: Breaker) -> Document:
    counts = {"failing": breaker.failing, "of": breaker.of, "stays_open": breaker.stays_open}
    return {"name": name, "state": breaker.state.value, "since": _text_of(breaker.since), **counts}


def _provider_condition(one: ProviderCondition) -> Document:
    since = _text_of(one.since) if one.since else None
    return {"kind": one.kind, "group": one.group, "message": one.message, "since": since}


def _ignored(ignored: Ignored | None) -> Document | None:
    if ignored is None:
        return None
    return {
        "by": ignored.by,
        "since": _text_of(ignored.since),
        "until": _text_of(ignored.until) if ignored.until else None,
        "reason": ignored.reason,
    }


def _probation(probation: Probation) -> Document:
    return {
        "case_id": probation.case_id,
        "code": probation.code,
        "component": plain(component_data(probation.component)),
        "repair_action": probation.repair_action,
        "until": _text_of(probation.until),
    }


def node_document(state: NodeState) -> Document:
    """Return a node as a JSON document: its instance, active conditions, devices and live case."""
    incarnation, case = state.incarnation, state.live_case
    return {
        "cluster": state.key.cluster,
        "node": state.key.node,
        "status": state.status,
        "severity": state.severity,
        "unverified": state.unverified,
        "isolation": state.isolation,
        "ignored": _ignored(state.ignored),
        "instance_id": incarnation.instance_id if incarnation else None,
        "boot_id": incarnation.boot_id if incarnation else None,
        "instance": incarnation.instance if incarnation else 0,
        "boot": incarnation.boot if incarnation else 0,
        "since": _text_of(incarnation.since) if incarnation else None,
        "former_instances": list(state.former_instances),
        "group": state.placement.group,
        "instance_type": state.placement.instance_type,
        "domain": state.placement.domain,
        "domains": dict(state.placement.domains),
        "aliases": [*state.placement.aliases, *state.placement.host_names],
        "conditions": [_condition(condition) for condition in state.active()],
        "devices": [plain(component_data(device)) for device in state.devices],
        "probations": [_probation(one) for one in state.probations],
        "case": {"case_id": case.id, "status": case.status} if case else None,
        "last_case": state.case.id if state.case else None,
        "due_at": _text_of(state.due_at),
        "epoch": state.head.epoch,
        "entries": state.head.sequence,
    }


def case_document(view: CaseView, now: datetime) -> Document:
    """Return a case as a JSON document, with the duration of each phase so far in milliseconds."""
    case = view.case
    return {
        "case_id": case.id,
        "cluster": view.key.cluster,
        "node": view.key.node,
        "status": case.status,
        "waiting_for": case.waiting_for,
        "incident": case.incident,
        "resolution": case.resolution,
        "reason": case.reason,
        "failure": case.because.failure,
        "detail": case.because.detail,
        "code": case.code,
        "component": plain(component_data(case.component)),
        "severity": case.severity,
        "action": case.action,
        "repair_action": case.repair_action,
        "attempt": case.attempts,
        "approval": _approval(case.approval),
        "opened_at": _text_of(case.opened_at),
        "closed_at": _text_of(case.closed_at),
        "age_ms": view.age(now),
        "phases": view.phases(now),
        "gpu_time_lost_ms": gpu_time_lost(case, case.closed_at or now),
        "rule": case.rule,
        "policy": case.policy,
        "previous_case": case.previous_case,
        "relapse_of": case.relapse_of,
        **{name: _text_of(one) if isinstance(one, datetime) else one for name, one in case.facts().items()},
    }


def page_document(view: PageView) -> Document:
    """Return a page (an operator alert) about a case as a JSON document."""
    return {"kind": view.kind, "page_state": view.state, "sent_at": _text_of(view.sent_at)}


def incident_document(view: IncidentView) -> Document:
    """Return an incident as a JSON document: its cause, its nodes, and the cases that wait for it."""
    incident = view.incident
    return {
        "incident_id": incident.id,
        "cluster": incident.cluster,
        "status": incident.status,
        "reason": incident.reason,
        "family": incident.family,
        "domain": {"type": incident.domain.kind, "name": incident.domain.name},
        "domain_nodes": incident.of,
        "code": incident.code,
        "subject": incident.subject,
        "affected": incident.affected,
        "nodes": list(incident.nodes),
        "held_cases": dict(view.held) if incident.status.holds else {},
        "opened_at": _text_of(incident.opened_at),
        "expired_at": _text_of(incident.expired_at),
        "closed_at": _text_of(incident.closed_at),
        "operator": incident.operator,
    }


def entry_document(line: Line) -> Document:
    """Return a timeline entry as JSON: its event without evidence, its hash, and whether it is late."""
    event = line.event
    return {**event, "hash": line.hash, "late": is_late(event)}


def _approval(approval: Approval | None) -> Document | None:
    if approval is None:
        return None
    return {
        "attempt": approval.attempt,
        "repair_action": approval.repair_action.value,
        "asked_at": _text_of(approval.asked_at),
        "answer_by": _text_of(approval.answer_by),
        "answer": approval.answer,
        "operator": approval.operator,
        "by_rule": approval.by_rule,
    }


def _condition(condition: Condition) -> Document:
    return {
        "code": condition.code,
        "component": plain(component_data(condition.component)),
        "severity": condition.severity,
        "action": condition.action,
        "message": condition.message,
        "since": _text_of(condition.since),
        "last_at": _text_of(condition.last_at),
        "count": condition.count,
        "reporters": sorted(condition.sources),
        "known_incarnation": condition.known_incarnation,
    }


def reject_document(reject: Reject) -> Document:
    """Return a rejected record as a JSON document, without the bytes of the record."""
    message = reject.message
    return {
        "record_id": reject.record_id,
        "cluster": reject.cluster,
        "node": message.node,
        "source": message.source,
        "reason": reject.reason,
        "detail": reject.detail,
        "sent_at": to_text(message.sent_at),
        "rejected_at": to_text(reject.rejected_at),
        "size": reject.size,
    }


def _text_of(at: datetime | None) -> str | None:
    return to_text(at) if at else None


def offender_document(offender: Offender) -> Document:
    """Return a repeat offender as JSON; `favors` is the likelier cause: card, slot or undetermined."""
    return {
        "device": offender.name,
        "instance_id": offender.place.host,
        "slot": offender.place.pci,
        "faults": offender.faults,
        "card": {"number": offender.card.number, "faulty": offender.card.faulty},
        "other_cards": {"number": offender.slot.number, "faulty": offender.slot.faulty},
        "likelihood_ratio": round(offender.ratio, 3),
        "favors": offender.favors,
    }


def finding_document(finding: Finding) -> Document:
    """Return a finding as JSON; `score` is in robust standard deviations above the median."""
    return {
        "finding_id": finding.id,
        "cluster": finding.cluster,
        "node": finding.node,
        "detector": finding.detector,
        "value": finding.value,
        "median": finding.median,
        "score": finding.score / 100,
        "peers": finding.peers,
        "opened_at": to_text(finding.opened_at),
        "ended_at": to_text(finding.ended_at) if finding.ended_at else None,
        "mark": finding.mark,
        "marked_by": finding.marked_by,
        "reason": finding.reason,
    }


def shown_node_document(state: NodeState, config: ClusterConfig, now: datetime) -> Document:
    """Return a node as JSON with `no_repair`: why no repair starts, and what would change that."""
    found = no_repair(state, config, now)
    return {**node_document(state), "no_repair": to_builtins(found) if found else None}
