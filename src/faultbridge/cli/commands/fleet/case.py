"""`faultbridge case` and `incident`: show cases and incidents, and approve, deny, cancel or close them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from faultbridge.cli.commands.options import AnyClusterOption, CaseArgument, FileOption, ReasonOption
from faultbridge.cli.commands.selection import Facts, NodeFacts, SelectionOptions, case_facts, selected, show_selected
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, Exit, Group, Option, Text, command
from faultbridge.cli.render import columns as render
from faultbridge.cli.render.output import Shown
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession, WaitOption, pause, show_awaited
from faultbridge.model.enums import CaseStatus, RepairAction, WaitingFor
from faultbridge.record.entry_text import source_answers
from faultbridge.record.timeline import TimelineQuery, follow
from faultbridge.repair.registry import documents
from faultbridge.repair.registry.documents import Incident, shared
from faultbridge.serve.wiring.services import wire_case_orders, wire_incident_orders, wire_reports

MAX_ENTRIES = 200
"""Number of newest entries of a case that are searched for answers about EC2 capacity for a successor."""

_EXAMPLE_ID = "c-abcdefghijklmnopqrstuvwxyz"


@command(
    "case list",
    "",
    "--cluster train-a --status resolved",
    "--waiting-for approval --wait 60",
    "--since 7d --code xid.79 --by rack",
)
def list_cases(
    session: StackSession,
    selection: SelectionOptions,
    cluster: AnyClusterOption = None,
    node: Annotated[Text, Option("NODE", "Only cases of this node, open and closed.")] = None,
    status: Annotated[
        list[CaseStatus] | None,
        Option("STATUS", f"Only this status: {', '.join(CaseStatus)}. Repeatable. Default: live cases."),
    ] = None,
    everything: Annotated[bool, Option("--all", "Also closed cases.")] = False,
    waiting_for: Annotated[
        list[WaitingFor] | None, Option("WHAT", f"Only cases that wait for this: {', '.join(WaitingFor)}. Repeatable.")
    ] = None,
    since: Annotated[Text, Option("TIME", f"Only cases opened since then, open and closed. {PAST_HELP}")] = None,
    wait: WaitOption = 0,
) -> None:
    """List cases by opening time, oldest first. A case tracks one fault of one node until it is closed."""
    wanted = status or (tuple(CaseStatus) if everything or node or since else ())
    clusters, now = session.cluster_names(cluster), session.now()
    begin, places = parse_time(since, now), NodeFacts(session)

    def read() -> Iterator[tuple[Shown, Facts]]:
        views = [view for name in clusters for view in session.directory.cases(name, wanted)]
        views.sort(key=lambda view: (view.case.opened_at, view.case.id))
        chosen = (view for view in views if not waiting_for or view.case.waiting_for in waiting_for)
        recent = (view for view in chosen if begin is None or view.case.opened_at >= begin)
        shown = (render.case_document(view, session.now()) for view in recent if node in {None, view.key.node})
        return selected(shown, lambda one: case_facts(one, places), selection)

    show_selected(session, read, selection, render.by_cluster(render.CASES, clusters), wait)


@command("case show", _EXAMPLE_ID)
def show_case(session: StackSession, case: CaseArgument) -> None:
    """Show a case, its phases, and whether sources of EC2 capacity can provide a successor."""
    _show(session, case)


@command("case watch", _EXAMPLE_ID)
def watch_case(session: StackSession, case: CaseArgument) -> None:
    """Print the entries of a case as they are recorded, until the case is closed or escalated.

    Exit code 1: the case was not resolved.
    """
    render.check_format(session.output, "case watch")
    directory = session.directory
    directory.case(case)

    def wait() -> bool:
        pause()
        status = directory.case(case).case.status
        return status.live and status is not CaseStatus.ESCALATED

    lines = follow(session.timeline, TimelineQuery(case=case), session.ports.clock, wait)
    render.print_as_recorded(lines, session.output, render.ENTRIES)
    status = directory.case(case).case.status
    session.remark(f"case {status}; `faultbridge case show {case}` shows it")
    if status is not CaseStatus.RESOLVED:
        raise Exit(EXIT_NOT_WELL)


@dataclass(frozen=True)
class Answer:
    """An operator's answer to an approval request; without attempt or action it is for the current one."""

    reason: ReasonOption = ""
    attempt: Annotated[int | None, Option("N", "Attempt to answer for. Default: the current one.", min=1)] = None
    repair_action: Annotated[
        RepairAction | None,
        Option(
            "ACTION",
            f"Repair action to answer for: {', '.join(RepairAction)}. Default: the one that the case requires now.",
        ),
    ] = None


AnswerOptions = Annotated[Answer, Group(Answer)]


@command("case approve", f"{_EXAMPLE_ID} --reason 'checked'", f"{_EXAMPLE_ID} --repair-action verify")
def approve(session: ChangingSession, case: CaseArgument, *, answer: AnswerOptions) -> None:
    """Approve the repair for which a case requires approval.

    The approval is valid only for the repair action that the case requests now. If the case later needs another repair
    action, approval is requested again.
    """
    order = session.order(answer.reason)
    wire_case_orders(session.application).approve(case, order, answer.attempt, answer.repair_action)
    _show(session, case)


@command("case deny", f"{_EXAMPLE_ID} --reason 'job runs'")
def deny(session: ChangingSession, case: CaseArgument, *, answer: AnswerOptions) -> None:
    """Deny the repair for which a case requires approval. The case is then escalated to an operator."""
    order = session.order(answer.reason)
    wire_case_orders(session.application).deny(case, order, answer.attempt, answer.repair_action)
    _show(session, case)


@command("case cancel", f"{_EXAMPLE_ID} --reason 'false alarm'")
def cancel(session: ChangingSession, case: CaseArgument, reason: ReasonOption = "") -> None:
    """Cancel the repair of a case. An isolated node is verified before it returns to service."""
    wire_case_orders(session.application).cancel(case, session.order(reason))
    _show(session, case)


@command("case file", f"{_EXAMPLE_ID} --output-file case.zip")
def write_case_file(
    session: StackSession,
    case: CaseArgument,
    file: Annotated[Path | None, Option("--output-file FILE", "File to write. Default: the id and .zip.")] = None,
) -> None:
    """Write the case file of a case: its entries up to an anchor, the form of a hardware return, and a verifier.

    The reader checks the file with `verify_case.py`, which is in it and needs only Python. The verifier refuses a file
    without an anchor: write the file again after the next full hour.
    """
    from faultbridge.serve.casefile.collect import CaseFiles

    ports, path = session.ports, file or Path(f"{case}.zip")
    collect = CaseFiles(ports.table, ports.vault, ports.clock, session.application.stack)
    path.write_bytes(collect(session.directory.case(case)))
    session.show_written(path)


@command("case report", f"{_EXAMPLE_ID} --output-file case.html")
def report_case(session: StackSession, case: CaseArgument, file: FileOption = None) -> None:
    """Write a report of a case as one HTML file, which opens from disk without a network."""
    cluster = session.directory.case(case).key.cluster
    session.write_page(wire_reports(session.application).case(cluster, case), file, case)


class ShownCase(documents.ShownCase, frozen=True, kw_only=True):
    """A case with the answers of the sources of EC2 capacity for a successor."""

    capacity: list[dict[str, Any]]


def _show(session: Session, case: str) -> None:
    view, directory = session.directory.case(case), session.directory
    cluster, state = directory.cluster(view.key.cluster), directory.node(view.key)
    found = documents.shown_case_document(view, state, cluster, session.now())
    lines, _ = session.timeline.newest(TimelineQuery(case=case), MAX_ENTRIES)
    events = (render.entry_document(line).event for line in lines)
    session.show_one(shared(ShownCase, found, capacity=source_answers(events)), render.CASE)


IncidentArgument = Annotated[str, Argument("ID", "Id of the incident.")]
_EXAMPLE_INCIDENT = "inc-abcdefghijklmnop"


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
        return map(render.incident_document, views)

    show_awaited(session, read, render.INCIDENTS, wait)


@command("incident show", _EXAMPLE_INCIDENT)
def show_incident(session: StackSession, incident: IncidentArgument) -> None:
    """Show an incident, its nodes and the cases that wait for it."""
    session.show_one(render.incident_document(session.directory.incident(incident)), render.INCIDENT)


@command("incident close", f"{_EXAMPLE_INCIDENT} --reason 'not the switch'")
def close_incident(session: ChangingSession, incident: IncidentArgument, reason: ReasonOption = "") -> None:
    """Close an incident. The cases that wait for it then continue within the repair limits, oldest first."""
    before = session.directory.incident(incident)
    wire_incident_orders(session.application).close(before.incident.cluster, incident, session.order(reason))
    session.show_one(render.incident_document(session.directory.incident(incident)), render.INCIDENT)
    if before.held:
        session.remark(f"cases that continue within a minute, within the repair limits: {len(before.held)}")
