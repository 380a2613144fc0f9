"""`faultbridge explain`: names the ranks that the others wait for, from Flight Recorder dumps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from faultbridge.cli.render.format_options import formatted_command
from faultbridge.cli.render.output import Columns, Document, OutputFormat, examples, notice, show, show_one
from faultbridge.errors import Rejected
from faultbridge.explain.dumps.collectives import Explained, State, explain
from faultbridge.explain.dumps.dump import MAX_BYTES, Dump, read_dump

app = typer.Typer(rich_markup_mode=None)

SCOPE = "collectives only: this names ranks, not the cause; it gives no verdict on hardware and none on a restart"
REASONS = {
    State.NO_DUMP: "left no dump",
    State.BEHIND: "has not started the operation",
    State.UNFINISHED: "has not finished an operation that another member finished",
    State.MISMATCHED: "made another call than the other members",
    State.ORDER: "waits in a circle: calls in different order",
}
COLUMNS: Columns = {
    "RANK": lambda one: one["rank"],
    "NODE": lambda one: one["node"],
    "STATE": lambda one: one["state"],
    "GROUP": lambda one: f"{one['group']} {one['description']}",
    "NUMBER": lambda one: one["sequence"],
    "OPERATION": lambda one: one["operation"],
    "WAITING": lambda one: ",".join(map(str, one["waiting"])),
    "REASON": lambda one: REASONS[State(one["state"])],
}


@app.command(
    "explain", epilog=examples("faultbridge explain dumps/*", "faultbridge explain --nodes nodes.json --json dumps/*")
)
@formatted_command
def explain_files(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Dumps of one job, one a rank. The name ends in the rank.")
    ],
    nodes: Annotated[
        Path | None, typer.Option(metavar="MAP", help='JSON file with the ranks of each node: {"n-7": [0, 1]}.')
    ] = None,
    *,
    output: OutputFormat,
) -> None:
    """Name the ranks that the others wait for, from PyTorch Flight Recorder dumps (pickle or JSON).

    It explains collectives only: it names ranks, not the cause, and gives no verdict on hardware or on a restart.
    Exit code 65: a file is not a dump.
    """
    explained = explain(_read(file) for file in files)
    document = _document(explained, len(files), _nodes(nodes) if nodes else {})
    if not output.for_people:
        show_one(document, {}, output)
        return
    show(document["findings"], COLUMNS, output, empty="")
    for line in _notices(explained):
        notice(line)


def _read(file: Path) -> Dump:
    with file.open("rb") as stream:
        body = stream.read(MAX_BYTES + 1)
    try:
        return read_dump(str(file), body)
    except Rejected as error:
        raise Rejected(error.reason, f"{file}: {error.detail}") from error


def _nodes(file: Path) -> dict[int, str]:
    """Return the node of each rank. Another document, and a rank on two nodes, is `Rejected`."""
    try:
        listed = [(int(rank), node) for node, ranks in json.loads(file.read_bytes()).items() for rank in ranks]
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Rejected("bad_node_map", f"{file}: not an object of nodes with lists of ranks") from error
    if len(listed) != len(dict(listed)):
        raise Rejected("bad_node_map", f"{file}: a rank is on two nodes")
    return dict(listed)


def _document(explained: Explained, count: int, nodes: Mapping[int, str]) -> Document:
    return {
        "scope": "collectives",
        "dumps": count,
        "ranks": list(explained.ranks),
        "nodes": sorted({nodes[rank] for rank in explained.ranks if rank in nodes}),
        "findings": [asdict(one) | {"node": nodes.get(one.rank)} for one in explained.findings],
        "waiting": list(explained.waiting),
        "joined": [{"group": one.group, "sequence": one.sequence} for one in explained.joined],
        "missing": list(explained.missing),
        "missing_blamed": explained.are_missing_blamed,
    }


def _notices(explained: Explained) -> list[str]:
    notes = [f"explains {SCOPE}"]
    if explained.findings:
        notes.append(f"ranks that the others wait for: {', '.join(map(str, explained.ranks))}")
    elif explained.waiting:
        notes.append("no rank can be named: the dumps do not show which rank the others wait for")
    else:
        notes.append("no rank waits: the dumps have no pending operation")
    if explained.joined:
        calls = ", ".join(f"number {one.sequence} of group {one.group}" for one in explained.joined)
        notes.append(f"operations that all members started and none finished: {calls}; this names no rank")
    if not explained.are_missing_blamed:
        notes.append(
            f"{len(explained.missing)} ranks have no dump, more than half: they are not named; add their dumps"
        )
    return notes
