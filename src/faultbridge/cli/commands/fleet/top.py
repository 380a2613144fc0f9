"""`faultbridge top`: a live screen of the fleet, its clusters, nodes and cases; without a terminal, one look."""

from __future__ import annotations

import sys
from typing import Annotated

from msgspec import Struct

from faultbridge.cli.commands.fleet.repair_controls import BREAKERS, Breaker, breaker_documents
from faultbridge.cli.commands.options import AnyClusterOption
from faultbridge.cli.declare import Option, command
from faultbridge.cli.errors import requires_extra
from faultbridge.cli.render import columns as render
from faultbridge.cli.render.output import Columns, print_line, show
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.repair.registry.documents import Case, Cluster, Incident, Node

SECTIONS: tuple[tuple[str, str, Columns], ...] = (
    ("Clusters", "clusters", render.CLUSTERS),
    ("Nodes not healthy", "nodes", render.NODES),
    ("Cases", "cases", render.CASES),
    ("Incidents", "incidents", render.INCIDENTS),
    ("Breakers", "breakers", BREAKERS),
)


class Look(Struct, frozen=True):
    """What needs attention in some clusters, at one time."""

    clusters: list[Cluster]
    nodes: list[Node]
    cases: list[Case]
    incidents: list[Incident]
    breakers: list[Breaker]


def read_look(session: Session, names: list[str]) -> Look:
    """Return the clusters with their unhealthy nodes, live cases, incidents and breakers."""
    views, now = session.directory, session.now()
    clusters = [views.cluster(name) for name in names]
    return Look(
        [render.cluster_document(one) for one in clusters],
        [render.node_document(state, one.config) for one in clusters for state in views.unhealthy(one.config.cluster)],
        [render.case_document(one, now) for name in names for one in views.cases(name)],
        [render.incident_document(one) for name in names for one in views.incidents(name)],
        [document for one in clusters for document in breaker_documents(one.control)],
    )


@command("top", "", "--cluster train-a", "--once")
def show_top(
    session: StackSession,
    cluster: AnyClusterOption = None,
    interval: Annotated[float, Option("SECONDS", "Seconds between two reads.", min=0.5)] = 2,
    once: Annotated[bool, Option(help="Print once and end; the default without a terminal.")] = False,
) -> None:
    """Watch the fleet or a cluster on the full screen: what is not healthy, live cases, incidents and breakers.

    The arrows choose a row, Enter opens it (fleet, cluster, node, case) and Escape goes back. `/` filters the rows. `a`
    acknowledges a case, `s` silences a node or cluster, `p` pauses a cluster: each shows its command before it runs.
    `?` lists the keys, and `q` ends. Install the screen with `pip install 'faultbridge[top]'`.
    """
    names = session.cluster_names(cluster)
    if once or not session.prints_table or not sys.stdout.isatty():
        _print_once(session, read_look(session, names), names)
        return
    with requires_extra("top"):
        from faultbridge.cli.commands.fleet.top_screen import TopScreen
    TopScreen(session, cluster, interval).run()


def _print_once(session: Session, look: Look, names: list[str]) -> None:
    if session.prints_document(look):
        return
    blank = ""
    for title, name, columns in SECTIONS:
        listed = getattr(look, name)
        if listed:
            print_line(f"{blank}{title} ({len(listed)})")
            show(listed, render.by_cluster(columns, names) if "NODE" in columns else columns, session.output)
            blank = "\n"
