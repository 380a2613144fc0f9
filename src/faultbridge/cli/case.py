"""`faultbridge case`: one trouble of one node, from first fault to closure."""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.cli.documents import CASE, CASES, case_document
from faultbridge.cli.session import Session, on_stack
from faultbridge.domain.edges import CaseStatus
from faultbridge.repair.case_orders import CaseOrder

app = typer.Typer(rich_markup_mode=None)


@app.command("list", epilog="Example: faultbridge case list --cluster train-a --status resolved")
@on_stack
def list_cases(
    session: Session,
    cluster: Annotated[str | None, typer.Option(help="The cluster; all of them if not given.")] = None,
    status: Annotated[
        list[CaseStatus] | None, typer.Option(help="Only cases of this status; those that need somebody if not given.")
    ] = None,
) -> None:
    """List cases, oldest first."""
    clusters = [cluster] if cluster else [view.config.cluster for view in session.directory.clusters()]
    now = session.now()
    views = (view for name in clusters for view in session.directory.cases(name, status or ()))
    session.show((case_document(view, now) for view in views), CASES)


@app.command("show", epilog="Example: faultbridge case show c-abcdefghijklmnopqrstuvwxyz")
@on_stack
def show_case(session: Session, case: Annotated[str, typer.Argument(metavar="ID", help="The case's id.")]) -> None:
    """Show a case, with the time that it spent in each phase."""
    session.show_one(case_document(session.directory.case(case), session.now()), CASE)


Id = Annotated[str, typer.Argument(metavar="ID", help="The case's id.")]
Reason = Annotated[str, typer.Option("--reason", help="Why, in a few words; it goes on the record.")]
AttemptOption = Annotated[int | None, typer.Option("--attempt", min=1, help="The attempt that you were asked about.")]


@app.command("approve", epilog="Example: faultbridge case approve c-abcdefghijklmnopqrstuvwxyz --reason 'seen'")
@on_stack
def approve(session: Session, case: Id, reason: Reason = "", attempt: AttemptOption = None) -> None:
    """Let the repair begin that a case asks about."""
    session.application.orders.approve(case, CaseOrder(session.operator, reason), attempt)
    session.show_one(case_document(session.directory.case(case), session.now()), CASE)


@app.command("deny", epilog="Example: faultbridge case deny c-abcdefghijklmnopqrstuvwxyz --reason 'needed'")
@on_stack
def deny(session: Session, case: Id, reason: Reason = "", attempt: AttemptOption = None) -> None:
    """Refuse the repair that a case asks about; the case is yours then."""
    session.application.orders.deny(case, CaseOrder(session.operator, reason), attempt)
    session.show_one(case_document(session.directory.case(case), session.now()), CASE)


@app.command("cancel", epilog="Example: faultbridge case cancel c-abcdefghijklmnopqrstuvwxyz --reason 'false alarm'")
@on_stack
def cancel(session: Session, case: Id, reason: Reason = "") -> None:
    """Give nothing up for a case. A node that is kept off work already is verified and returned."""
    session.application.orders.cancel(case, CaseOrder(session.operator, reason))
    session.show_one(case_document(session.directory.case(case), session.now()), CASE)
