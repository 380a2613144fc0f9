"""What the command line can do, and where: add a row for each new command.

A module with several commands has `app`, a `typer.Typer`, and the row's name is their noun (`node list`); a module
with one has the function `command` (`decode`). Nothing here imports a command's module: `decode` never loads boto3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One command or noun: its module under `faultbridge.cli` and the line that `--help` shows."""

    module: str
    help: str


COMMANDS: Mapping[str, Row] = {
    "decode": Row("decode", "Turn raw text into faults and clears, offline."),
    "sources": Row("sources", "List the source names that can be decoded."),
    "catalog": Row("catalog", "Say what a fault code means, what others recommend, and why we do."),
    "schema": Row("schema", "Print the events' schemas, and validate an event."),
    "simulate": Row("simulate", "Run one history of the product under injected faults, the same for the same seed."),
    "rule": Row("rule", "Run the golden cases of EventBridge rules."),
    "up": Row("up", "Start the embedded stack."),
    "demo": Row("demo", "Let a GPU fall off the bus, and watch the repair."),
    "down": Row("down", "Stop the embedded stack."),
    "status": Row("status", "Say what runs where, how deep the queues are, what is stuck."),
    "cluster": Row("cluster", "Register clusters, and say how each is run."),
    "node": Row("node", "Register nodes, and show what is wrong with each."),
    "case": Row("case", "Show the troubles of nodes and how far their repair has come."),
    "breaker": Row("breaker", "Show or close the breakers that keep nodes from being taken out of service."),
    "pause": Row("pause", "Let no repair of a cluster begin any more."),
    "resume": Row("resume", "Let repairs of a cluster begin again."),
    "timeline": Row("timeline", "Tell what happened, when, and what was done about it."),
    "verify": Row("verify", "Prove that nothing is missing from the record."),
    "job": Row("job", "Note when jobs start and end, and where they run."),
    "restored": Row("restored", "Begin a new epoch after the table came back from a backup."),
    "erase": Row("erase", "Delete what the table holds of a cluster."),
    "policy": Row("policy", "Check a policy, put one, and show the one that holds."),
    "mapping": Row("mapping", "Check your own words for faults, put them, and show those that hold."),
    "send": Row("send", "Put raw records on the queue."),
    "account": Row("account", "Say whether every record that was sent has an outcome."),
    "reject": Row("reject", "Show the records that nobody could use, and try them again."),
    "redrive": Row("redrive", "Put dead letters back on the queue."),
    "agent": Row("agent", "Report what ails this node, from the node itself."),
}
