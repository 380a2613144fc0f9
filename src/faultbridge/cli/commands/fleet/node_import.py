"""`faultbridge node import`: registers many nodes, from a file or from a group of the provider.

A file is CSV with a heading line, or one JSON object per line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import ClusterOption, read_text
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


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """A line of the file that is not a valid node: the line number, the node name and the problem.

    The node name is None if the line has no name.
    """

    number: int
    node: str | None
    problem: str


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
    """Register many nodes. If one node is rejected, the others are still registered.

    Exit code 1: a node was rejected.
    """
    if (file is None) == (group is None):
        raise typer.BadParameter("give one of FILE and --group")
    read = read_nodes(file) if file is not None else _nodes_of_group(session, cluster, str(group))
    registration, nodes = session.application.registry.registration, [one for one in read if isinstance(one, NewNode)]
    if file is not None:
        registration.pin_roles_of(cluster, nodes)
    results = iter(registration.add_nodes(cluster, nodes))
    rows = []
    with progress("registering nodes", len(read)) as advance:
        for one in read:
            rows.append(_row(one, next(results)) if isinstance(one, NewNode) else _invalid(one))
            advance(1)
    session.show(rows, IMPORTED)
    rejected = sum(row["outcome"] == "refused" for row in rows)
    if session.prints_table:
        notice(f"registered {len(rows) - rejected} of {len(rows)} nodes")
    if rejected:
        raise typer.Exit(EXIT_NOT_WELL)


def read_nodes(file: str) -> list[NewNode | InvalidRow]:
    """Read the nodes in a file, or in standard input for `-`. A file without nodes is a usage error.

    A line that is not a valid node becomes an InvalidRow.
    """
    text = read_text(file).removeprefix("\ufeff")
    rows = list(_json_rows(text) if text.lstrip().startswith("{") else _csv_rows(text))
    if not rows:
        raise typer.BadParameter(f"no nodes in the file: {file}; give one node per line")
    return [row if isinstance(row, InvalidRow) else _node(row, number) for number, row in rows]


def _json_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any] | InvalidRow]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        yield number, row if isinstance(row, dict) else InvalidRow(number, None, "not a JSON object")


def _csv_rows(text: str) -> Iterator[tuple[int, Mapping[str, Any] | InvalidRow]]:
    reader = csv.DictReader(StringIO(text))
    try:
        unknown = sorted(set(reader.fieldnames or ()) - set(FIELDS))
        if unknown:
            raise typer.BadParameter(f"unknown column: {', '.join(unknown)}; allowed: {', '.join(FIELDS)}")
        for row in reader:
            number, extra = reader.line_num, None in row
            yield number, InvalidRow(number, row.get("node"), "more fields than the heading line") if extra else row
    except csv.Error as error:
        raise Rejected("not_csv", f"the file is not CSV: {error}") from error


def _node(row: Mapping[str, Any], number: int) -> NewNode | InvalidRow:
    name, aliases = row.get("node"), row.get("aliases") or ()
    listed = aliases.split(ALIAS_SEPARATOR) if isinstance(aliases, str) else aliases
    texts = {field: row.get(field) or None for field in FIELDS[:-1]}
    unknown = sorted(set(row) - set(FIELDS))
    if unknown:
        problem = f"unknown field: {', '.join(unknown)}; allowed: {', '.join(FIELDS)}"
    elif not name:
        problem = "no node name; fill the field `node`"
    elif not isinstance(listed, list | tuple) or not all(
        isinstance(one, str) for one in (*filter(None, texts.values()), *listed)
    ):
        problem = "value is not text; aliases are a list of texts, or joined by `;`"
    else:
        named = tuple(one.strip() for one in listed if one.strip())
        return NewNode(
            str(name), texts["instance_id"], texts["group"], texts["instance_type"], texts["domain"], aliases=named
        )
    return InvalidRow(number, name if isinstance(name, str) else None, problem)


def _nodes_of_group(session: Session, cluster: str, group: str) -> list[NewNode | InvalidRow]:
    """Return the instances of a provider group as nodes, and register their IAM roles.

    A record proves the instance of its node only if a registered role sent the record.
    """
    config = session.application.registry.registration.cluster(cluster)
    inventory = session.application.ports.inventories.get(config.provider)
    if inventory is None:
        raise typer.BadParameter(f"no inventory for provider: {config.provider!r}; give a file instead of --group")
    instances = inventory.serving_instances(config, group)
    serving = sum(one.serving for one in inventory.list_members(config, [group]).get(group, {}).values())
    if serving > len(instances):
        notice(
            f"{serving - len(instances)} of {serving} instances of {group} were left out: one import reads at most "
            f"{len(instances)}; the inventory registers the others at its next runs"
        )
    session.application.registry.registration.pin_roles(config, instances)
    return [NewNode.of_instance(instance) for instance in instances]


def _row(node: NewNode, result: NodeState | Rejected) -> dict[str, str | None]:
    rejected = result if isinstance(result, Rejected) else None
    return {
        "node": node.name,
        "instance_id": node.instance_id,
        "outcome": "refused" if rejected else "registered",
        "reason": (rejected.detail or rejected.reason) if rejected else None,
    }


def _invalid(row: InvalidRow) -> dict[str, str | None]:
    return {
        "node": row.node,
        "instance_id": None,
        "outcome": "refused",
        "reason": f"line {row.number}: {row.problem}",
    }
