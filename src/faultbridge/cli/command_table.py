"""List the commands and their modules; each new command needs a row here.

Every module has `app`, a `typer.Typer`. If `app` has a command with the name of the row, the row is that command
(`decode`). Otherwise the row is a noun, and the commands in `app` are its verbs (`node list`). This table imports no
module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One command or noun: its module in `faultbridge.cli.commands`, and its line in the help."""

    module: str
    help: str


COMMANDS: Mapping[str, Row] = {
    "decode": Row("offline.decode", "Decode raw text to faults and clears. Works offline."),
    "sources": Row("offline.decode", "List the source names that can be decoded."),
    "catalog": Row("offline.catalog", "Explain a fault code: severity, action and reason."),
    "explain": Row("offline.explain", "Explain why a job died and whether it may restart."),
    "mechanism": Row("offline.mechanism", "List, show and test the mechanisms of `explain`."),
    "schema": Row("offline.schema", "Print event schemas and validate events."),
    "rule": Row("offline.rule", "Test EventBridge rules and write their template."),
    "up": Row("embedded.up_down", "Start the embedded stack on this machine."),
    "demo": Row("embedded.demo", "Break a GPU in the embedded stack and watch the repair."),
    "down": Row("embedded.up_down", "Stop the embedded stack and delete its data."),
    "fleet": Row("embedded.fleet", "Create, break and heal fake nodes of an embedded stack."),
    "env": Row("embedded.env", "Print variables that point programs to an embedded stack."),
    "status": Row("embedded.status", "Show what runs, queue depths and overdue work."),
    "cluster": Row("fleet.cluster", "Register, show and change clusters."),
    "node": Row("fleet.node", "Register, show, repair and retire nodes."),
    "case": Row("fleet.case", "Show cases; approve, deny or cancel repairs."),
    "stuck": Row("fleet.required_orders", "List nodes and cases that wait for an operator's command."),
    "top": Row("fleet.top", "Watch a cluster: unhealthy nodes, cases, incidents."),
    "incident": Row("fleet.incident", "Show or close incidents of many nodes."),
    "gpus": Row("fleet.gpus", "Show the share of GPUs in service and hours lost."),
    "finding": Row("fleet.finding", "Show and judge signs of gray failures."),
    "device": Row("fleet.device", "Show a GPU's history, and repeat offenders."),
    "breaker": Row("fleet.repair_controls", "Show or close the repair breakers of a cluster."),
    "pause": Row("fleet.repair_controls", "Pause new repairs in one cluster or in all."),
    "resume": Row("fleet.repair_controls", "Resume repairs in one cluster or in all."),
    "policy": Row("policy.policy", "Check, compare, publish and show the repair policy."),
    "mapping": Row("fleet.mapping", "Check, publish and show your own fault mappings."),
    "job": Row("fleet.job", "Record when jobs start and end, and show which may resume."),
    "send": Row("records.send", "Send raw records to the queue of a stack."),
    "webhook": Row("records.webhook", "Let Alertmanager, Grafana and others post records."),
    "agent": Row("records.agent", "Collect and send the faults of this node."),
    "collect": Row("records.collect", "Collect and send the faults of a Kubernetes cluster."),
    "audit": Row("records.audit", "Check that every record sent has an outcome."),
    "reject": Row("records.rejects", "List, show and retry rejected records."),
    "redrive": Row("records.maintenance", "Move dead letters back to their queues."),
    "timeline": Row("records.timeline", "Show the entries of a cluster, node, case or job."),
    "report": Row("records.report", "Write a report of a cluster as one HTML file."),
    "console": Row("records.console", "Print the address of the read-only web console, or serve it."),
    "verify": Row("records.verify", "Verify sequences and hash chains of the record."),
    "recover": Row("records.maintenance", "Start a new epoch after a restore from backup."),
    "erase": Row("records.maintenance", "Delete the items of a cluster from the table."),
}
