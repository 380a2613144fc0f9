"""`faultbridge case`: shows cases, and approves, denies or cancels their repairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from faultbridge.cli.commands.options import AnyClusterOption, CaseArgument, ReasonOption
from faultbridge.cli.commands.records.report import WRITTEN, FileOption, write_file
from faultbridge.cli.commands.selection import Facts, NodeFacts, SelectionOptions, case_facts, selected, show_selected
from faultbridge.cli.declare import Exit, Group, Option, command
from faultbridge.cli.errors import EXIT_NOT_WELL
from faultbridge.cli.render.columns import (
    CASE,
    CASES,
    ENTRIES,
    by_cluster,
    case_document,
    check_format,
    entry_document,
    print_as_recorded,
)
from faultbridge.cli.render.output import Shown, notice
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.command import ChangingSession, StackSession, WaitOption, pause
from faultbridge.cli.stack.session import Session
from faultbridge.model.cases import Case
from faultbridge.model.enums import CaseStatus, RepairAction, WaitingFor
from faultbridge.record.entry_text import source_answers
from faultbridge.record.timeline import TimelineQuery, follow
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry import documents
from faultbridge.repair.registry.documents import shared
from faultbridge.serve.wiring.services import wire_case_orders, wire_reports

MAX_ENTRIES = 200
"""Number of newest entries of a case that are searched for answers about EC2 capacity for a successor."""

AttemptOption = Annotated[int | None, Option("--attempt N", "Attempt to answer for. Default: the current one.", min=1)]
ActionOption = Annotated[
    RepairAction | None,
    Option(
        "--repair-action ACTION",
        f"Repair action to answer for: {', '.join(RepairAction)}. Default: the one that the case requires now.",
    ),
]
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
    node: Annotated[str | None, Option("NODE", "Only cases of this node, open and closed.")] = None,
    status: Annotated[
        list[CaseStatus] | None,
        Option("STATUS", f"Only this status: {', '.join(CaseStatus)}. Repeatable. Default: live cases."),
    ] = None,
    everything: Annotated[bool, Option("--all", "Also closed cases.")] = False,
    waiting_for: Annotated[
        list[WaitingFor] | None, Option("WHAT", f"Only cases that wait for this: {', '.join(WaitingFor)}. Repeatable.")
    ] = None,
    since: Annotated[str | None, Option("TIME", f"Only cases opened since then, open and closed. {PAST_HELP}")] = None,
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
        shown = (case_document(view, session.now()) for view in recent if node in {None, view.key.node})
        return selected(shown, lambda one: case_facts(one, places), selection)

    show_selected(session, read, selection, by_cluster(CASES, clusters), wait)


@command("case show", _EXAMPLE_ID)
def show_case(session: StackSession, case: CaseArgument) -> None:
    """Show a case, its phases, and whether sources of EC2 capacity can provide a successor."""
    _show(session, case)


@command("case watch", _EXAMPLE_ID)
def watch_case(session: StackSession, case: CaseArgument) -> None:
    """Print the entries of a case as they are recorded, until the case is closed or escalated.

    Exit code 1: the case was not resolved.
    """
    check_format(session.output, "case watch")
    directory = session.directory
    directory.case(case)

    def wait() -> bool:
        return pause() and _continues(directory.case(case).case)

    lines = follow(session.timeline, TimelineQuery(case=case), session.ports.clock, wait)
    print_as_recorded(lines, session.output, ENTRIES)
    status = directory.case(case).case.status
    if session.prints_table:
        notice(f"case {status}; `faultbridge case show {case}` shows it")
    if status is not CaseStatus.RESOLVED:
        raise Exit(EXIT_NOT_WELL)


def _continues(case: Case) -> bool:
    return case.status.live and case.status is not CaseStatus.ESCALATED


@dataclass(frozen=True)
class Answer:
    """An operator's answer to an approval request; without attempt or action it is for the current one."""

    reason: str
    attempt: int | None
    repair_action: RepairAction | None


def _answer(reason: ReasonOption = "", attempt: AttemptOption = None, repair_action: ActionOption = None) -> Answer:
    return Answer(reason, attempt, repair_action)


AnswerOptions = Annotated[Answer, Group(_answer)]


@command("case approve", f"{_EXAMPLE_ID} --reason 'checked'", f"{_EXAMPLE_ID} --repair-action verify")
def approve(session: ChangingSession, case: CaseArgument, *, answer: AnswerOptions) -> None:
    """Approve the repair for which a case requires approval.

    The approval is valid only for the repair action that the case requests now. If the case later needs another repair
    action, approval is requested again.
    """
    order = OperatorOrder(session.operator, answer.reason)
    wire_case_orders(session.application).approve(case, order, answer.attempt, answer.repair_action)
    _show(session, case)


@command("case deny", f"{_EXAMPLE_ID} --reason 'job runs'")
def deny(session: ChangingSession, case: CaseArgument, *, answer: AnswerOptions) -> None:
    """Deny the repair for which a case requires approval. The case is then escalated to an operator."""
    order = OperatorOrder(session.operator, answer.reason)
    wire_case_orders(session.application).deny(case, order, answer.attempt, answer.repair_action)
    _show(session, case)


@command("case cancel", f"{_EXAMPLE_ID} --reason 'false alarm'")
def cancel(session: ChangingSession, case: CaseArgument, reason: ReasonOption = "") -> None:
    """Cancel the repair of a case. An isolated node is verified before it returns to service."""
    wire_case_orders(session.application).cancel(case, OperatorOrder(session.operator, reason))
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
    session.show_one({"file": str(path), "bytes": path.stat().st_size}, WRITTEN)


@command("case report", f"{_EXAMPLE_ID} --output-file case.html")
def report_case(session: StackSession, case: CaseArgument, file: FileOption = None) -> None:
    """Write a report of a case as one HTML file, which opens from disk without a network."""
    cluster = session.directory.case(case).key.cluster
    write_file(session, wire_reports(session.application).case(cluster, case), file, case)


class ShownCase(documents.ShownCase, frozen=True, kw_only=True):
    """A case with the answers of the sources of EC2 capacity for a successor."""

    capacity: list[dict[str, Any]]


def _show(session: Session, case: str) -> None:
    view, directory = session.directory.case(case), session.directory
    cluster, state = directory.cluster(view.key.cluster), directory.node(view.key)
    found = documents.shown_case_document(view, state, cluster, session.now())
    lines, _ = session.timeline.newest(TimelineQuery(case=case), MAX_ENTRIES)
    events = (entry_document(line).event for line in lines)
    session.show_one(shared(ShownCase, found, capacity=source_answers(events)), CASE)
