"""`faultbridge incident`: shows cluster incidents, and closes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from faultbridge.cli.commands.options import AnyClusterOption, ReasonOption
from faultbridge.cli.declare import Argument, Option, command
from faultbridge.cli.render.columns import INCIDENT, INCIDENTS, incident_document
from faultbridge.cli.render.output import notice
from faultbridge.cli.stack.command import ChangingSession, StackSession, WaitOption, show_awaited
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.documents import Incident
from faultbridge.serve.wiring.services import wire_incident_orders

IncidentArgument = Annotated[str, Argument("ID", "Id of the incident.")]
_EXAMPLE_ID = "inc-abcdefghijklmnop"


@command("incident list", "", "--cluster train-a --all")
def list_incidents(
    session: StackSession,
    cluster: AnyClusterOption = None,
    closed: Annotated[bool, Option("--all", "Also the incidents closed in the last 90 days.")] = False,
    wait: WaitOption = 0,
) -> None:
    """List the open incidents, oldest first. An incident is one cause of faults on many nodes."""
    clusters = session.cluster_names(cluster)

    def read() -> Iterator[Incident]:
        views = [view for name in clusters for view in session.directory.incidents(name, closed=closed)]
        views.sort(key=lambda view: (view.incident.opened_at, view.incident.id))
        return map(incident_document, views)

    show_awaited(session, read, INCIDENTS, wait)


@command("incident show", _EXAMPLE_ID)
def show_incident(session: StackSession, incident: IncidentArgument) -> None:
    """Show an incident, its nodes and the cases that wait for it."""
    session.show_one(incident_document(session.directory.incident(incident)), INCIDENT)


@command("incident close", f"{_EXAMPLE_ID} --reason 'not the switch'")
def close_incident(session: ChangingSession, incident: IncidentArgument, reason: ReasonOption = "") -> None:
    """Close an incident. The cases that wait for it then continue within the repair limits, oldest first."""
    before = session.directory.incident(incident)
    order = OperatorOrder(session.operator, reason)
    wire_incident_orders(session.application).close(before.incident.cluster, incident, order)
    session.show_one(incident_document(session.directory.incident(incident)), INCIDENT)
    if session.prints_table and before.held:
        notice(f"cases that continue within a minute, within the repair limits: {len(before.held)}")
