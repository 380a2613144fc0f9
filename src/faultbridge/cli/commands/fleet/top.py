"""`faultbridge top`: a live screen of one cluster's unhealthy nodes, live cases, incidents and breakers."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated

from msgspec import Struct

from faultbridge.cli.commands.fleet.repair_controls import BREAKERS, Breaker, breaker_documents
from faultbridge.cli.commands.options import ClusterOption
from faultbridge.cli.declare import Commands, Option
from faultbridge.cli.render.columns import (
    CASES,
    INCIDENTS,
    NODES,
    case_document,
    cluster_document,
    incident_document,
    node_document,
)
from faultbridge.cli.render.output import Columns, OutputFormat, print_line, show, show_one
from faultbridge.cli.render.tables import Screen, Section, quit_key, run_screen
from faultbridge.cli.stack.command import StackSession
from faultbridge.cli.stack.session import Session
from faultbridge.repair.registry.documents import Case, Cluster, Incident, Node
from faultbridge.repair.registry.views import ClusterView

app = Commands()

REREAD_AFTER = timedelta(seconds=30)
"""Everything is read again after this time, even if the cluster has not changed."""

SECTIONS: tuple[tuple[str, str, Columns], ...] = (
    ("Nodes not healthy", "nodes", NODES),
    ("Cases", "cases", CASES),
    ("Incidents", "incidents", INCIDENTS),
    ("Breakers", "breakers", BREAKERS),
)


@app.command("top", "faultbridge top --cluster train-a", "faultbridge top --cluster train-a --once")
def show_top(
    session: StackSession,
    cluster: ClusterOption,
    interval: Annotated[
        float, Option("--interval", min=0.5, metavar="SECONDS", help="Seconds between two reads of the cluster.")
    ] = 2,
    once: Annotated[bool, Option("--once", help="Print once and end; the default without a terminal.")] = False,
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


class Look(Struct, frozen=True):
    """What one screen shows about a cluster."""

    cluster: Cluster
    nodes: list[Node]
    cases: list[Case]
    incidents: list[Incident]
    breakers: list[Breaker]


@dataclass
class ClusterReader:
    """Reads one cluster, and detects whether it has changed since the last read."""

    session: Session
    cluster: str
    _seen: ClusterView | None = field(default=None, init=False)
    _read_at: datetime | None = field(default=None, init=False)
    _cases: bool = field(default=False, init=False)

    def read(self) -> Look:
        """Return the cluster with its unhealthy nodes, cases, incidents and breakers."""
        directory, now = self.session.directory, self.session.now()
        view = directory.cluster(self.cluster)
        cases = [case_document(one, now) for one in directory.cases(self.cluster)]
        self._seen, self._read_at, self._cases = view, now, bool(cases)
        return Look(
            cluster_document(view),
            [node_document(state) for state in directory.unhealthy(self.cluster)],
            cases,
            [incident_document(one) for one in directory.incidents(self.cluster)],
            breaker_documents(view.control),
        )

    def changed(self) -> Screen | None:
        """Return a new screen after a change, while a case is live, and after 30 seconds; else None."""
        now = self.session.now()
        due = self._read_at is None or self._cases or now - self._read_at >= REREAD_AFTER
        if not due and self.session.directory.cluster(self.cluster) == self._seen:
            return None
        return screen_of(self.read(), now)


def screen_of(look: Look, now: datetime) -> Screen:
    """Return the heading and the sections of the screen for what `ClusterReader.read` returns."""
    sections: list[Section] = [(title, getattr(look, name), columns) for title, name, columns in SECTIONS]
    return f"{_heading(look.cluster)}  {now:%H:%M:%S}Z  q quits", sections


def _heading(cluster: Cluster) -> str:
    healthy = cluster.counts.get("healthy", 0)
    paused = ", repairs paused" if cluster.paused else ""
    return f"{cluster.cluster}: {cluster.status}, {healthy} of {cluster.expected} healthy{paused}"


def _print_once(look: Look, output: OutputFormat) -> None:
    if not output.for_people:
        show_one(look, {}, output)
        return
    print_line(_heading(look.cluster))
    for title, name, columns in SECTIONS:
        listed = getattr(look, name)
        if listed:
            print_line(f"\n{title} ({len(listed)})")
            show(listed, columns, output)
