"""Define the columns of the tables of clusters, nodes, cases, incidents and timeline entries."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from faultbridge.cli.declare import BadParameter
from faultbridge.cli.render.output import Columns, LiveTable, OutputFormat, fields, print_line
from faultbridge.cli.render.times import short_time, stated_time
from faultbridge.model.event_data import json_text
from faultbridge.record import entry_text as texts
from faultbridge.record.timeline import Line
from faultbridge.repair.registry.documents import (
    Approval,
    Case,
    Condition,
    Entry,
    Ignored,
    Pause,
    Probation,
    case_document,
    cluster_document,
    entry_document,
    incident_document,
    node_document,
)

__all__ = ["case_document", "cluster_document", "entry_document", "incident_document", "node_document"]


CLUSTERS: Columns = fields("CLUSTER, STATUS, NODES=expected, NOT HEALTHY, MODE, REPAIR OWNER, REPAIRS") | {
    "NOT HEALTHY": lambda one: sum(one.counts[name] for name in one.counts if name not in {"healthy", "retired"}),
    "REPAIRS": lambda one: f"{len(one.holders)}, paused" if one.paused else len(one.holders),
}


def _pause(one: Pause) -> str:
    until = f", until {stated_time(one.until)}" if one.until else ""
    return f"yes, since {stated_time(one.since)} by {one.by}{until}{f': {one.reason}' if one.reason else ''}"


CLUSTER: Columns = fields(
    "Cluster, Status, Incidents:list, Provider reports, Nodes, Reports, Unseen groups:list, By status, Mode, "
    "Repair owner, Provider, Orchestrator, Verifier, Restarter, EKS cluster, HyperPod cluster, Slurm head node, "
    "slurmrestd=slurm_rest, Instance types:list, Subnets:list, Spares, Failure domains, Provider role, Policy, "
    "Shards, Maintenance until:at, Paused, Silences, Claims ignored, Repairs running"
) | {
    "Provider reports": lambda one: "\n".join(map(texts.condition_text, one.provider_conditions)),
    "Nodes": lambda one: texts.nodes_text(one.expected, one.target),
    "Reports": lambda one: None if one.reporting is None else f"agents report from {one.reporting} of {one.expected}",
    "By status": lambda one: ", ".join(f"{number} {name}" for name, number in one.counts.items()),
    "Spares": lambda one: ", ".join(f"{number} {name}" for name, number in one.pool.items()),
    "Failure domains": lambda one: "\n".join(f"{domain.type} {domain.name}: {domain.nodes}" for domain in one.domains),
    "Policy": lambda one: one.policy or "the current version",
    "Paused": lambda one: "\n".join(map(_pause, one.pauses)) or "no",
    "Silences": lambda one: "\n".join(f"{silence.id} until {stated_time(silence.until)}" for silence in one.silences),
    "Claims ignored": lambda one: "\n".join(
        f"{source} until {stated_time(at)}" for source, at in one.damped_sources.items()
    ),
    "Repairs running": lambda one: "\n".join(f"{case} since {stated_time(at)}" for case, at in one.holders.items()),
}
NODE_HISTORY: Columns = fields("TIME (UTC)=at:time, KIND, WHAT=text, INSTANCE=instance_id, SLOT, DEVICE, CASE=case_id")
NODES: Columns = fields(
    "NODE, STATUS, SEVERITY, LAST REPORT, FAULTS, CASE, INSTANCE=instance_id, TYPE=instance_type, GROUP"
) | {
    "STATUS": lambda one: "no_data" if one.no_data and one.status == "healthy" else one.status,
    "LAST REPORT": lambda one: short_time(one.last_report.at) if one.last_report else "never",
    "FAULTS": lambda one: ", ".join(condition.failure_mode for condition in one.conditions),
    "CASE": lambda one: one.case.case_id if one.case else None,
}
NODE: Columns = fields(
    "Node, Status, Last report, Instance, Instance since=since:at, Type=instance_type, Group, "
    "Failure domain=domain, Domains by kind, Aliases:list, Isolation, Ignored, Faults, Probations, Case, "
    "Next check=due_at:at"
) | {
    "Node": lambda one: f"{one.cluster}/{one.node}",
    "Status": lambda one: one.status + (" (never verified)" if one.unverified else ""),
    "Last report": lambda one: (
        f"{short_time(one.last_report.at)} ({one.last_report.source})" if one.last_report else "never"
    ),
    "Instance": lambda one: f"{one.instance_id} (instance {one.instance}, boot {one.boot})",
    "Domains by kind": lambda one: ", ".join(f"{kind} {name}" for kind, name in one.domains.items()),
    "Ignored": lambda one: _ignored_text(one.ignored),
    "Faults": lambda one: "\n".join(map(_condition_text, one.conditions)),
    "Probations": lambda one: "\n".join(map(_probation_text, one.probations)),
    "Case": lambda one: f"{one.case.case_id} ({one.case.status})" if one.case else None,
}
ANSWER: Columns = {
    "What happened": lambda one: one.answer.what,
    "What happens next": lambda one: one.answer.system,
    "What you should do": lambda one: one.answer.action,
    "Commands": lambda one: "\n".join(one.answer.commands),
    "Runbook": lambda one: f"docs/runbooks/{one.answer.runbook}.md",
}
SHOWN_NODE: Columns = {**NODE, **ANSWER}
CASES: Columns = fields("CASE=case_id, NODE, STATUS, CODE, WAITING FOR, RESOLUTION, DURATION, REPAIR, COMPONENT") | {
    "DURATION": lambda one: texts.duration_text(one.age_ms),
    "REPAIR": lambda one: None if _has_no_repair(one) else one.repair_action,
    "COMPONENT": lambda one: texts.component_text(one.component),
}
CASE: Columns = fields(
    "Case=case_id, Node, Status, Incident, Resolution, Reason, Cause, Action, Opened=opened_at:at, Approval, "
    "Owner, Continues at, Closed=closed_at:at, Duration, Phases, GPU-hours lost, with the provider's repair, "
    "without automation, Capacity, Rule, Previous case, Relapse of"
) | {
    "Node": lambda one: f"{one.cluster}/{one.node}",
    "Status": lambda one: one.status + (f" (waiting for {one.waiting_for})" if one.waiting_for else ""),
    "Cause": lambda one: f"{one.severity}: {one.failure_mode} ({one.code}) {texts.component_text(one.component)}",
    "Action": lambda one: _action_text(one),  # noqa: PLW0108 - defined below
    "Approval": lambda one: _approval_text(one.approval),
    "Owner": lambda one: one.owner and one.owner + (f": {one.owner_note}" if one.owner_note else ""),
    "Continues at": lambda one: stated_time(one.not_before) if _continues_later(one) else None,
    "Duration": lambda one: texts.duration_text(one.age_ms),
    "Phases": lambda one: "\n".join(f"{name:<14}{texts.duration_text(took)}" for name, took in one.phases.items()),
    "GPU-hours lost": lambda one: _hours(one.gpu_time_lost_ms),
    "with the provider's repair": lambda one: one.receipt and _hours(one.receipt.provider_repair),
    "without automation": lambda one: one.receipt and _hours(one.receipt.no_automation),
    "Capacity": lambda one: "\n".join(map(texts.answer_text, one.capacity)),
    "Rule": lambda one: f"{one.rule} of policy {one.policy}",
    **ANSWER,
}
CASE_OWNER: Columns = {
    **{title: CASE[title] for title in ("Case", "Node", "Status", "Reason", "Owner")},
    "Not repeated until": lambda one: short_time(one.acknowledged_until),
}
INCIDENTS: Columns = fields(
    "INCIDENT=incident_id, CLUSTER, STATUS, FAMILY, FAILURE DOMAIN, AFFECTED, HELD CASES:len, OPENED=opened_at:time"
) | {
    "FAILURE DOMAIN": lambda one: f"{one.domain.type} {one.domain.name}",
    "AFFECTED": lambda one: f"{one.affected} of {one.domain_nodes}",
}
INCIDENT: Columns = fields(
    "Incident, Status, Reason, Cause, Origin, Failure domain, Affected=nodes:lines, Held cases, "
    "Opened=opened_at:at, Expired=expired_at:at, Closed=closed_at:at, Closed by=operator"
) | {
    "Incident": lambda one: f"{one.cluster}/{one.incident_id}",
    "Cause": lambda one: one.code + (f" about {one.subject}" if one.subject else ""),
    "Origin": lambda one: one.origin or "unknown",
    "Failure domain": lambda one: f"{one.domain.type} {one.domain.name}, {one.domain_nodes} nodes",
    "Held cases": lambda one: "\n".join(f"{node}: {case}" for node, case in sorted(one.held_cases.items())),
}
ENTRIES: Columns = {
    "TIME (UTC)": lambda one: short_time(one.event.metadata.occurred_at)[5:] + (" late" if one.late else ""),
    "NODE": lambda one: one.event.metadata.node or f"({one.event.metadata.cluster})",
    "WHAT": lambda one: text_of(one).what,
    "WHY": lambda one: text_of(one).why,
}
CHAIN: Columns = {"LINK": lambda one: one.relation + (f" {one.distance}" if one.distance else ""), **ENTRIES}


def by_cluster(columns: Columns, clusters: Sequence[str]) -> Columns:
    """Return the columns of a list; for several clusters, add the column CLUSTER before the column NODE."""
    if len(clusters) < 2:  # noqa: PLR2004 - one cluster needs no column
        return columns
    before = list(columns).index("NODE")
    titles = [*list(columns)[:before], "CLUSTER", *list(columns)[before:]]
    return {title: {**columns, **fields("CLUSTER")}[title] for title in titles}


def _hours(gpu_time: int | None) -> str:
    return "-" if gpu_time is None else f"{gpu_time / 3_600_000:.2f}"


def _has_no_repair(case: Case) -> bool:
    """Return whether no repair is planned for an escalated case, as after an operator's quarantine."""
    return case.status == "escalated" and case.action == "contact_support" and not case.attempt


def _action_text(case: Case) -> str:
    """Return a case's action, repair action and attempt, as in `reboot_node, now replace_node, attempt 2`."""
    same = case.repair_action == case.action
    repair = "" if same or _has_no_repair(case) else f", now {case.repair_action}"
    return f"{case.action}{repair}, attempt {case.attempt}"


def _continues_later(case: Case) -> bool:
    """Return whether an open or queued case waits until a time (`not_before`) after its opening."""
    later = case.not_before is not None and case.not_before > case.opened_at
    return later and case.status in {"open", "queued"}


def _approval_text(approval: Approval | None) -> str | None:
    if approval is None:
        return None
    answer = f"{approval.answer} by {approval.operator}" if approval.answer else None
    return f"{answer or 'answer by ' + stated_time(approval.answer_by)} (attempt {approval.attempt})"


def _ignored_text(ignored: Ignored | None) -> str | None:
    if ignored is None:
        return None
    until = f" until {stated_time(ignored.until)}" if ignored.until else ""
    return f"by {ignored.by}{until}{': ' if ignored.reason else ''}{ignored.reason}"


def _condition_text(condition: Condition) -> str:
    seen = f"{condition.count} times since {stated_time(condition.since)}, by {', '.join(condition.reporters)}"
    name = f"{condition.failure_mode} {texts.component_text(condition.component)}".rstrip()
    fault = f"{condition.severity} {name} [{', '.join(condition.codes)}]"
    fault += f" because of {condition.because_of}" if condition.because_of else ""
    return f"{fault}: {condition.message} ({seen})"


def _probation_text(probation: Probation) -> str:
    fault = f"{probation.failure_mode} {texts.component_text(probation.component)}"
    return f"{fault} until {stated_time(probation.until)} ({probation.repair_action} of case {probation.case_id})"


def text_of(entry: Entry) -> texts.EntryText:
    """Return the text of an entry: what happened, and why."""
    return texts.entry_text(entry.event.metadata.event_type, entry.event.data)


WIDTHS = (14, 13, 46)


def check_format(output: OutputFormat, printed_by: str) -> None:
    """Refuse `--json` for entries that are still being recorded: they cannot be one JSON document."""
    if output is OutputFormat.JSON:
        raise BadParameter(f"conflicting options: {printed_by} with --json; give --jsonl")


def print_as_recorded(lines: Iterable[Line], output: OutputFormat, columns: Columns) -> None:
    """Print each entry when it is recorded: a row of a table, or one JSON object per line."""
    wide = output is OutputFormat.WIDE_TABLE
    table = LiveTable(columns, WIDTHS, terminal=(lambda: None) if wide else None)
    for line in lines:
        document = entry_document(line)
        if output.for_people:
            table.add(document)
        else:
            print_line(json_text(document))
        sys.stdout.flush()
