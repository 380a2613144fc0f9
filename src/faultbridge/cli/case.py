"""`faultbridge case`: one trouble of one node, from first fault to closure."""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.cli.documents import CASE, CASES, case_document
from faultbridge.cli.session import Session, on_stack
from faultbridge.domain.edges import CaseStatus

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
