"""Clusters, nodes, cases and entries as JSON documents and as columns for people."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from faultbridge.cli.output import Columns
from faultbridge.cli.times import short, text_of
from faultbridge.domain.conditions import Condition
from faultbridge.domain.nodes import NodeState
from faultbridge.services.directory import CaseView, ClusterView
from faultbridge.services.telling import component_text, duration_text, tell
from faultbridge.services.timeline import Line, is_late
from faultbridge.stages.narrate import component_data

Document = dict[str, Any]

CLUSTERS: Columns = {
    "CLUSTER": lambda one: one["cluster"],
    "STATUS": lambda one: one["status"],
    "NODES": lambda one: one["expected"],
    "NOT HEALTHY": lambda one: _not_healthy(one["counts"]),
    "MODE": lambda one: one["mode"],
    "REPAIRED BY": lambda one: one["repair_owner"],
    "REPAIRS RUNNING": lambda one: len(one["holders"]),
}
CLUSTER: Columns = {
    "Cluster": lambda one: one["cluster"],
    "Status": lambda one: one["status"],
    "Nodes": lambda one: f"{one['expected']} registered",
    "By status": lambda one: ", ".join(f"{number} {name}" for name, number in one["counts"].items()),
    "Mode": lambda one: one["mode"],
    "Repaired by": lambda one: one["repair_owner"],
    "Provider": lambda one: one["provider"],
    "Orchestrator": lambda one: one["orchestrator"],
    "Verifier": lambda one: one["verifier"],
    "Policy": lambda one: one["policy"] or "the current one",
    "Shards": lambda one: one["shards"],
    "Paused": lambda one: "yes" if one["paused"] else "no",
    "Repairs running": lambda one: "\n".join(f"{case} since {short(at)}" for case, at in one["holders"].items()),
}
NODES: Columns = {
    "NODE": lambda one: one["node"],
    "STATUS": lambda one: one["status"],
    "WORST": lambda one: one["severity"],
    "INSTANCE": lambda one: one["instance_id"],
    "TYPE": lambda one: one["instance_type"],
    "GROUP": lambda one: one["group"],
    "CASE": lambda one: one["case"]["case_id"] if one["case"] else None,
    "WRONG": lambda one: ", ".join(condition["code"] for condition in one["conditions"]),
}
NODE: Columns = {
    "Node": lambda one: f"{one['cluster']}/{one['node']}",
    "Status": lambda one: one["status"] + (" (never verified)" if one["unverified"] else ""),
    "Instance": lambda one: f"{one['instance_id']} (number {one['instance']}, boot {one['boot']})",
    "Sits since": lambda one: short(one["since"]),
    "Type": lambda one: one["instance_type"],
    "Group": lambda one: one["group"],
    "Failure domain": lambda one: one["domain"],
    "Also called": lambda one: ", ".join(one["aliases"]),
    "Kept off work": lambda one: one["isolation"],
    "Wrong": lambda one: "\n".join(map(_condition_text, one["conditions"])),
    "Case": lambda one: f"{one['case']['case_id']} ({one['case']['status']})" if one["case"] else None,
    "Looked at again": lambda one: short(one["due_at"]),
}
CASES: Columns = {
    "CASE": lambda one: one["case_id"],
    "NODE": lambda one: one["node"],
    "STATUS": lambda one: one["status"],
    "WAITS FOR": lambda one: one["waiting_for"],
    "CAUSE": lambda one: f"{one['code']} {component_text(one['component'])}",
    "RUNG": lambda one: one["rung"],
    "AGE": lambda one: duration_text(one["age_ms"]),
    "ENDED AS": lambda one: one["resolution"],
}
CASE: Columns = {
    "Case": lambda one: one["case_id"],
    "Node": lambda one: f"{one['cluster']}/{one['node']}",
    "Status": lambda one: one["status"] + (f" (waiting for {one['waiting_for']})" if one["waiting_for"] else ""),
    "Ended as": lambda one: one["resolution"],
    "Reason": lambda one: one["reason"],
    "Cause": lambda one: f"{one['severity']}: {one['code']} {component_text(one['component'])}",
    "Action": lambda one: f"{one['action']}, at rung {one['rung']}, attempt {one['attempt']}",
    "Opened": lambda one: short(one["opened_at"]),
    "Goes on at": lambda one: short(one["not_before"]),
    "Closed": lambda one: short(one["closed_at"]),
    "Took": lambda one: duration_text(one["age_ms"]),
    "Phases": lambda one: "\n".join(f"{name:<14}{duration_text(took)}" for name, took in one["phases"].items()),
    "Rule": lambda one: f"{one['rule']} of policy {one['policy']}",
    "Case before": lambda one: one["previous_case"],
}
ENTRIES: Columns = {
    "TIME (UTC)": lambda one: short(one["metadata"]["occurred_at"])[5:] + (" late" if one["late"] else ""),
    "NODE": lambda one: one["metadata"]["node"] or f"({one['metadata']['cluster']})",
    "WHAT": lambda one: tell(one).what,
    "WHY": lambda one: tell(one).why,
}


def cluster_document(view: ClusterView) -> Document:
    """Describe a cluster."""
    config = view.config
    return {
        "cluster": config.cluster,
        "status": view.state.status,
        "counts": dict(view.state.counts),
        "expected": config.expected,
        "mode": config.mode,
        "repair_owner": config.repair_owner,
        "provider": config.provider,
        "orchestrator": config.orchestrator,
        "verifier": config.verifier,
        "shards": config.shards,
        "policy": config.policy,
        "version": config.version,
        "paused": view.control.paused,
        "holders": {case: text_of(since) for case, since in view.control.holders.items()},
    }


def node_document(state: NodeState) -> Document:
    """Describe a node: who sits there, what is wrong, and the case that it has."""
    sitting, case = state.incarnation, state.live_case
    return {
        "cluster": state.key.cluster,
        "node": state.key.node,
        "status": state.status,
        "severity": state.severity,
        "unverified": state.unverified,
        "isolation": state.isolation,
        "instance_id": sitting.instance_id if sitting else None,
        "boot_id": sitting.boot_id if sitting else None,
        "instance": sitting.instance if sitting else 0,
        "boot": sitting.boot if sitting else 0,
        "since": text_of(sitting.since) if sitting else None,
        "former_instances": list(state.former_instances),
        "group": state.seat.group,
        "instance_type": state.seat.instance_type,
        "domain": state.seat.domain,
        "aliases": list(state.seat.aliases),
        "conditions": [_condition(condition) for condition in state.active()],
        "devices": [component_data(device) for device in state.devices],
        "case": {"case_id": case.id, "status": case.status} if case else None,
        "last_case": state.case.id if state.case else None,
        "due_at": text_of(state.due_at),
        "epoch": state.head.epoch,
        "entries": state.head.sequence,
    }


def case_document(view: CaseView, now: datetime) -> Document:
    """Describe a case, with the time it spent in each phase so far, in milliseconds."""
    case = view.case
    return {
        "case_id": case.id,
        "cluster": view.key.cluster,
        "node": view.key.node,
        "status": case.status,
        "waiting_for": case.waiting_for,
        "resolution": case.resolution,
        "reason": case.reason,
        "code": case.code,
        "component": component_data(case.component),
        "severity": case.severity,
        "action": case.action,
        "rung": case.rung,
        "attempt": case.attempts,
        "opened_at": text_of(case.opened_at),
        "not_before": text_of(case.not_before),
        "closed_at": text_of(case.closed_at),
        "age_ms": view.age(now),
        "phases": view.phases(now),
        "rule": case.rule,
        "policy": case.policy,
        "previous_case": case.previous_case,
    }


def entry_document(line: Line) -> Document:
    """Describe an entry: the event without its evidence, the hash of its stored body, and whether it came late."""
    event = line.event
    return {**event, "hash": line.hash, "late": is_late(event)}


def _condition(condition: Condition) -> Document:
    return {
        "code": condition.code,
        "component": component_data(condition.component),
        "severity": condition.severity,
        "action": condition.action,
        "message": condition.message,
        "since": text_of(condition.since),
        "last_at": text_of(condition.last_at),
        "count": condition.count,
        "witnesses": sorted(source for source, witness in condition.witnesses.items() if witness.active),
        "known_incarnation": condition.known_incarnation,
    }


def _condition_text(condition: Document) -> str:
    seen = f"{condition['count']} times since {short(condition['since'])}, by {', '.join(condition['witnesses'])}"
    what = f"{condition['severity']} {condition['code']} {component_text(condition['component'])}"
    return f"{what}: {condition['message']} ({seen})"


def _not_healthy(counts: dict[str, int]) -> int:
    return sum(number for name, number in counts.items() if name not in {"healthy", "retired"})
