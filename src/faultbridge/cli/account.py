"""`faultbridge account`: whether every record that was sent has an outcome."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import Columns, notice
from faultbridge.cli.session import Session, on_stack
from faultbridge.cli.times import HELP, instant, text_of
from faultbridge.ingest.delivery_audit import DeliveryAudit, account

EPILOG = "Example: faultbridge account --since 10m --wait 30"
LISTED = 20
PAUSE_SECONDS = 1.0
ACCOUNTED: Columns = {
    "Since": lambda one: one["since"],
    "Sent": lambda one: one["sent"],
    "Outcomes": lambda one: "\n".join(f"{number} {outcome}" for outcome, number in one["outcomes"].items() if number),
    "Missing": lambda one: one["missing"],
    "Sent by others": lambda one: one["others"],
}


@on_stack
def command(
    session: Session,
    since: Annotated[str, typer.Option(help=HELP)],
    wait: Annotated[int, typer.Option(min=0, help="Wait up to this many seconds until all are accounted for.")] = 0,
) -> None:
    """Compare records sent with records that have an outcome. Exit code 1 when one has none."""
    at = instant(since, session.now()) or session.now()
    found = account(session.receipts, at)
    for _ in range(wait):
        if found.complete:
            break
        time.sleep(PAUSE_SECONDS)
        found = account(session.receipts, at)
    session.show_one(_document(found), ACCOUNTED)
    if not found.complete:
        notice(f"{len(found.missing)} of {found.sent} records have no outcome: {_listed(found)}")
        raise typer.Exit(EXIT_NOT_WELL)


def _document(found: DeliveryAudit) -> dict[str, object]:
    return {
        "since": text_of(found.since),
        "sent": found.sent,
        "outcomes": {outcome.value: number for outcome, number in found.outcomes.items()},
        "missing": len(found.missing),
        "missing_ids": list(found.missing),
        "others": found.others,
        "complete": found.complete,
    }


def _listed(found: DeliveryAudit) -> str:
    more = len(found.missing) - LISTED
    return ", ".join(found.missing[:LISTED]) + (f" and {more} more" if more > 0 else "")
