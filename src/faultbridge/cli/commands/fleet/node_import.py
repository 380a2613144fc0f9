"""`faultbridge node import`: registers many nodes, from a file or from a group of the provider.

A file is CSV with a heading line, or one JSON object per line.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import STDIN, ClusterOption
from faultbridge.cli.errors.failures import EXIT_NOT_WELL
from faultbridge.cli.render.live_output import progress
from faultbridge.cli.render.output import Columns, examples, notice
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Rejected
from faultbridge.registry.registration import NewNode

IMPORT_EXAMPLES = examples(
    "faultbridge node import --cluster train-a --group gpu-workers",
    "faultbridge node import --cluster train-a nodes.csv",
)
FIELDS = ("node", "instance_id", "group", "instance_type", "domain", "aliases")
ALIAS_SEPARATOR = ";"
IMPORTED: Columns = {
    "NODE": lambda one: one["node"],
    "OUTCOME": lambda one: one["outcome"],
    "INSTANCE": lambda one: one["instance_id"],
    "REASON": lambda one: one["reason"],
}


@stack_command
def import_nodes(
    session: Session,
    cluster: ClusterOption,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help=f"CSV or JSON lines with {', '.join(FIELDS)}; - reads standard input."),
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="NAME", help="Register the instances of this provider group.")
    ] = None,
) -> None:
    """Register many nodes. A rejected node does not stop the others. Exit code 1: a node was rejected."""
    if (file is None) == (group is None):
        raise typer.BadParameter("give one of FILE and --group")
    nodes = read_nodes(file) if file is not None else _nodes_of_group(session, cluster, str(group))
    results = session.application.registry.registration.add_nodes(cluster, nodes)
    rows = []
    with progress("registering nodes", len(nodes)) as advance:
        for node, result in zip(nodes, results, strict=True):
            rows.append(_row(node, result))
            advance(1)
    session.show(rows, IMPORTED)
    rejected = sum(row["outcome"] == "refused" for row in rows)
    if session.prints_table:
        notice(f"registered {len(rows) - rejected} of {len(rows)} nodes")
    if rejected:
        raise typer.Exit(EXIT_NOT_WELL)


def read_nodes(file: str) -> list[NewNode]:
    """Read the nodes of a file, or of standard input for `-`. An invalid line is wrong usage."""
    text = sys.stdin.read() if file == STDIN else Path(file).read_text(encoding="utf-8")
    rows = _json_rows(text) if text.lstrip().startswith("{") else _csv_rows(text)
    nodes = [_node(row, number) for number, row in rows]
    if not nodes:
        raise typer.BadParameter(f"no nodes in the file: {file}; give one node per line")
    return nodes


def _json_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects of JSON lines, each with its line number."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise typer.BadParameter(f"line {number}: not a JSON object")
        yield number, row


def _csv_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the rows of CSV, each with its line number."""
    reader = csv.DictReader(StringIO(text))
    for row in reader:
        if None in row:
            raise typer.BadParameter(f"line {reader.line_num}: more fields than the heading line")
        yield reader.line_num, row


def _node(row: Mapping[str, Any], number: int) -> NewNode:
    """Convert one line of the file to a node. `number` is its line number."""
    unknown = sorted(set(row) - set(FIELDS))
    if unknown:
        raise typer.BadParameter(f"line {number}: unknown field: {', '.join(unknown)}; allowed: {', '.join(FIELDS)}")
    aliases = row.get("aliases") or ()
    listed = aliases.split(ALIAS_SEPARATOR) if isinstance(aliases, str) else aliases
    texts = {name: row.get(name) or None for name in FIELDS[:-1]}
    if not texts["node"]:
        raise typer.BadParameter(f"line {number}: no node name; fill the field `node`")
    if any(not isinstance(one, str) for one in (*(value for value in texts.values() if value), *listed)):
        raise typer.BadParameter(f"line {number}: value is not text; aliases are a list of texts, or joined by `;`")
    name = str(texts.pop("node"))
    aliases = tuple(one.strip() for one in listed if one.strip())
    return NewNode(name, texts["instance_id"], texts["group"], texts["instance_type"], texts["domain"], aliases=aliases)


def _nodes_of_group(session: Session, cluster: str, group: str) -> list[NewNode]:
    """List the instances of a group at the provider of the cluster."""
    config = session.application.registry.registration.cluster(cluster)
    inventory = session.application.ports.inventories.get(config.provider)
    if inventory is None:
        raise typer.BadParameter(f"no inventory for provider: {config.provider!r}; give a file instead of --group")
    return [NewNode.of_instance(instance) for instance in inventory.serving_instances(config, group)]


def _row(node: NewNode, result: NodeState | Rejected) -> dict[str, str | None]:
    rejected = result if isinstance(result, Rejected) else None
    return {
        "node": node.name,
        "instance_id": node.instance_id,
        "outcome": "refused" if rejected else "registered",
        "reason": (rejected.detail or rejected.reason) if rejected else None,
    }
