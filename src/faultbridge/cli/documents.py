"""Clusters, nodes, cases and entries as columns for people, beside their documents."""

from __future__ import annotations

from faultbridge.cli.output import Columns
from faultbridge.cli.times import short
from faultbridge.ledger.entry_text import component_text, duration_text, tell
from faultbridge.registry.documents import Document, case_document, cluster_document, entry_document, node_document

__all__ = ["case_document", "cluster_document", "entry_document", "node_document"]

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
    "Restarter": lambda one: one["restarter"],
    "In Amazon EKS": lambda one: one["eks_cluster"],
    "In HyperPod": lambda one: one["hyperpod_cluster"],
    "Launches": lambda one: ", ".join(one["instance_types"]),
    "In subnets": lambda one: ", ".join(one["subnets"]),
    "Spares": lambda one: ", ".join(f"{number} {name}" for name, number in one["pool"].items()),
    "Reached through": lambda one: one["provider_role"],
    "Policy": lambda one: one["policy"] or "the current one",
    "Shards": lambda one: one["shards"],
    "Maintenance until": lambda one: short(one["maintenance_until"]),
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
    "Shares": lambda one: ", ".join(f"{kind} {name}" for kind, name in one["domains"].items()),
    "Also called": lambda one: ", ".join(one["aliases"]),
    "Kept off work": lambda one: one["isolation"],
    "Left alone": lambda one: _left_alone(one["ignored"]),
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
    "RUNG": lambda one: one["repair_action"],
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
    "Action": lambda one: f"{one['action']}, at repair action {one['repair_action']}, attempt {one['attempt']}",
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


def _left_alone(ignored: Document | None) -> str | None:
    if ignored is None:
        return None
    until = f" until {short(ignored['until'])}" if ignored["until"] else ""
    return f"by {ignored['by']}{until}{': ' if ignored['reason'] else ''}{ignored['reason']}"


def _condition_text(condition: Document) -> str:
    seen = f"{condition['count']} times since {short(condition['since'])}, by {', '.join(condition['reporters'])}"
    what = f"{condition['severity']} {condition['code']} {component_text(condition['component'])}"
    return f"{what}: {condition['message']} ({seen})"


def _not_healthy(counts: dict[str, int]) -> int:
    return sum(number for name, number in counts.items() if name not in {"healthy", "retired"})
