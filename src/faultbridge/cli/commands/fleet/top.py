"""`faultbridge top`: a live screen of one cluster's unhealthy nodes, live cases, incidents and breakers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.fleet.repair_controls import BREAKERS, breaker_documents
from faultbridge.cli.commands.options import ClusterOption
from faultbridge.cli.render.columns import (
    CASES,
    INCIDENTS,
    NODES,
    case_document,
    cluster_document,
    incident_document,
    node_document,
)
from faultbridge.cli.render.output import Columns, Document, OutputFormat, examples, print_line, show, show_one
from faultbridge.cli.render.tables import Screen, Section, quit_key, run_screen
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.repair.registry.views import ClusterView

app = typer.Typer(rich_markup_mode=None)

REREAD_AFTER = timedelta(seconds=30)
"""Everything is read again after this time, even if the cluster has not changed."""

SECTIONS: tuple[tuple[str, str, Columns], ...] = (
    ("Nodes not healthy", "nodes", NODES),
    ("Cases", "cases", CASES),
    ("Incidents", "incidents", INCIDENTS),
    ("Breakers", "breakers", BREAKERS),
)


@app.command("top", epilog=examples("faultbridge top --cluster train-a", "faultbridge top --cluster train-a --once"))
@stack_command
def show_top(
    session: Session,
    cluster: ClusterOption,
    interval: Annotated[
        float, typer.Option("--interval", min=0.5, metavar="SECONDS", help="Seconds between two reads of the cluster.")
    ] = 2,
    once: Annotated[bool, typer.Option("--once", help="Print once and end; the default without a terminal.")] = False,
) -> None:
    """Watch a cluster on the full screen: unhealthy nodes, live cases, incidents and breakers.

    `q` or Ctrl-C ends the command. It reads the status of the cluster at each interval. It reads the lists again after
    a change, while a case is live, and when they are 30 seconds old.
    """
    reader = ClusterReader(session, cluster)
    if once or not session.prints_table or not sys.stdout.isatty():
        _print_once(reader.read(), session.output)
        return
    from rich.console import Console

    with quit_key(interval) as wait_for_quit:
        run_screen(reader.changed, wait_for_quit, Console())


@dataclass
class ClusterReader:
    """Reads one cluster, and detects whether it has changed since the last read."""

    session: Session
    cluster: str
    _seen: ClusterView | None = field(default=None, init=False)
    _read_at: datetime | None = field(default=None, init=False)
    _cases: bool = field(default=False, init=False)

    def read(self) -> dict[str, Any]:
        """Return the cluster with its unhealthy nodes, cases, incidents and breakers as one document."""
        directory, now = self.session.directory, self.session.now()
        view = directory.cluster(self.cluster)
        cases = [case_document(one, now) for one in directory.cases(self.cluster)]
        self._seen, self._read_at, self._cases = view, now, bool(cases)
        return {
            "cluster": cluster_document(view),
            "nodes": [node_document(state) for state in directory.unhealthy(self.cluster)],
            "cases": cases,
            "incidents": [incident_document(one) for one in directory.incidents(self.cluster)],
            "breakers": breaker_documents(view.control),
        }

    def changed(self) -> Screen | None:
        """Return a new screen after a change, while a case is live, and after 30 seconds; else None."""
        now = self.session.now()
        due = self._read_at is None or self._cases or now - self._read_at >= REREAD_AFTER
        if not due and self.session.directory.cluster(self.cluster) == self._seen:
            return None
        return screen_of(self.read(), now)


def screen_of(document: Document, now: datetime) -> Screen:
    """Return the heading and the sections of the screen for a document of `ClusterReader.read`."""
    sections: list[Section] = [(title, document[name], columns) for title, name, columns in SECTIONS]
    return f"{_heading(document['cluster'])}  {now:%H:%M:%S}Z  q quits", sections


def _heading(cluster: Document) -> str:
    healthy = cluster["counts"].get("healthy", 0)
    paused = ", repairs paused" if cluster["paused"] else ""
    return f"{cluster['cluster']}: {cluster['status']}, {healthy} of {cluster['expected']} healthy{paused}"


def _print_once(document: Document, output: OutputFormat) -> None:
    if not output.for_people:
        show_one(document, {}, output)
        return
    print_line(_heading(document["cluster"]))
    for title, name, columns in SECTIONS:
        if document[name]:
            print_line(f"\n{title} ({len(document[name])})")
            show(document[name], columns, output)
