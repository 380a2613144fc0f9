"""`faultbridge case`: shows cases, and approves, denies or cancels their repairs.

A case tracks one fault of one node, from detection until it is resolved.
"""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.cli.commands.options import ReasonOption
from faultbridge.cli.render.columns import CASE, CASES, case_document
from faultbridge.cli.render.output import examples
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.edges import CaseStatus
from faultbridge.repair.case_orders import OperatorOrder

app = typer.Typer(rich_markup_mode=None)

CaseArgument = Annotated[str, typer.Argument(metavar="ID", help="Id of the case.")]
AttemptOption = Annotated[
    int | None, typer.Option("--attempt", min=1, metavar="N", help="Attempt to answer for. Default: the current one.")
]
ActionOption = Annotated[
    RepairAction | None,
    typer.Option(
        "--repair-action",
        metavar="ACTION",
        help=f"Repair action to answer for: {', '.join(RepairAction)}. Default: the one that the case requires now.",
    ),
]
_EXAMPLE_ID = "c-abcdefghijklmnopqrstuvwxyz"


@app.command(
    "list", epilog=examples("faultbridge case list", "faultbridge case list --cluster train-a --status resolved")
)
@stack_command
def list_cases(
    session: Session,
    cluster: Annotated[str | None, typer.Option(metavar="CLUSTER", help="Only this cluster. Default: all.")] = None,
    status: Annotated[
        list[CaseStatus] | None,
        typer.Option(
            metavar="STATUS", help=f"Only this status: {', '.join(CaseStatus)}. Repeatable. Default: live cases."
        ),
    ] = None,
) -> None:
    """List cases, oldest first."""
    clusters = [cluster] if cluster else [view.config.cluster for view in session.directory.clusters()]
    now = session.now()
    views = (view for name in clusters for view in session.directory.cases(name, status or ()))
    session.show((case_document(view, now) for view in views), CASES)


@app.command("show", epilog=examples(f"faultbridge case show {_EXAMPLE_ID}"))
@stack_command
def show_case(session: Session, case: CaseArgument) -> None:
    """Show a case and the time it spent in each phase."""
    _show(session, case)


@app.command(
    "approve",
    epilog=examples(
        f"faultbridge case approve {_EXAMPLE_ID} --reason 'checked'",
        f"faultbridge case approve {_EXAMPLE_ID} --repair-action verify",
    ),
)
@stack_command
def approve(
    session: Session,
    case: CaseArgument,
    reason: ReasonOption = "",
    attempt: AttemptOption = None,
    repair_action: ActionOption = None,
) -> None:
    """Approve the repair for which a case requires approval. It counts for no other repair action."""
    order = OperatorOrder(session.operator, reason)
    session.application.repair.case_orders.approve(case, order, attempt, repair_action)
    _show(session, case)


@app.command("deny", epilog=examples(f"faultbridge case deny {_EXAMPLE_ID} --reason 'job runs'"))
@stack_command
def deny(
    session: Session,
    case: CaseArgument,
    reason: ReasonOption = "",
    attempt: AttemptOption = None,
    repair_action: ActionOption = None,
) -> None:
    """Deny the repair for which a case requires approval. The case is then escalated to an operator."""
    order = OperatorOrder(session.operator, reason)
    session.application.repair.case_orders.deny(case, order, attempt, repair_action)
    _show(session, case)


@app.command("cancel", epilog=examples(f"faultbridge case cancel {_EXAMPLE_ID} --reason 'false alarm'"))
@stack_command
def cancel(session: Session, case: CaseArgument, reason: ReasonOption = "") -> None:
    """Cancel the repair of a case. An isolated node is verified and returned to service."""
    session.application.repair.case_orders.cancel(case, OperatorOrder(session.operator, reason))
    _show(session, case)


def _show(session: Session, case: str) -> None:
    session.show_one(case_document(session.directory.case(case), session.now()), CASE)
