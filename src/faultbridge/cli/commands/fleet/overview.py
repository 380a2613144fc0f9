"""`faultbridge` alone: the stack that answers, its clusters, and what waits for the operator."""

from __future__ import annotations

from faultbridge.cli.commands.fleet.required_orders import print_stuck, stuck_documents
from faultbridge.cli.declare import command
from faultbridge.cli.render.columns import CLUSTERS, cluster_document
from faultbridge.cli.render.output import Columns, fields, print_line, show_one
from faultbridge.cli.stack.command import StackSession

PLACE: Columns = {**fields("Context", "Stack", "Account", "Region"), "Clusters": lambda one: len(one["clusters"])}


@command("overview", "$ faultbridge", "--json")
def show_overview(session: StackSession) -> None:
    """Show which stack answers, its clusters, and what waits for you; so does `faultbridge` alone."""
    names = session.cluster_names()
    clusters = [cluster_document(session.directory.cluster(name)) for name in names]
    place = session.place_document()
    needed = stuck_documents(session, names)
    if not session.prints_table:
        session.show_one({**place, "clusters": clusters, "needs_you": needed}, {})
        return
    show_one({**place, "clusters": clusters}, PLACE, session.output)
    if clusters:
        print_line()
        session.show(clusters, CLUSTERS)
    print_line()
    print_line(f"Needs you ({len(needed)})" if needed else "Nothing waits for you.")
    print_stuck(session, needed, names)
