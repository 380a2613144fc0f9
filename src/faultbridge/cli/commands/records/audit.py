"""`faultbridge audit`: checks that every record that was sent has an outcome, such as `rejected`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from faultbridge.cli.declare import Exit, Option, command
from faultbridge.cli.errors import EXIT_NOT_WELL
from faultbridge.cli.render.output import Columns, fields, notice
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.command import StackSession, wait_until
from faultbridge.serve.ingest.send import DeliveryAudit, audit_deliveries

MAX_LISTED_IDS = 20
AUDIT: Columns = {
    **fields("Since", "Sent"),
    "Outcomes": lambda one: "\n".join(f"{number} {outcome}" for outcome, number in one["outcomes"].items() if number),
    "Stale records": lambda one: _listed_ids(one["stale_ids"]),
    "Missing": lambda one: one["missing"],
    "Not compared": lambda one: f"{one['others']} received without a receipt of their sender" if one["others"] else "",
}


@command("audit", "--since 1h", "--since 10m --wait 30")
def audit_records(
    session: StackSession,
    since: Annotated[str, Option("TIME", f"Records sent since this time. {PAST_HELP}")],
    wait: Annotated[int, Option("SECONDS", "Maximum wait until every record has an outcome.", min=0)] = 0,
) -> None:
    """Check that every record that was sent has an outcome. Exit code 1: a record has no outcome.

    The outcome of a record is, for example, that it was stored or rejected. A record is stale if it is older than the
    stored state of its node; it then changed nothing. Only the commands `faultbridge send`, `fleet` and `demo` record
    what they sent. Records of other senders, such as agents, webhooks and cloud events, are not compared.
    """
    at = parse_time(since, session.now()) or session.now()
    found = wait_until(lambda: audit_deliveries(session.receipts, at), wait, lambda audit: audit.complete)
    session.show_one(_document(found), AUDIT)
    if not found.complete:
        notice(f"{len(found.missing)} of {found.sent} records have no outcome: {_listed_ids(found.missing)}")
        raise Exit(EXIT_NOT_WELL)


def _document(found: DeliveryAudit) -> dict[str, object]:
    return {
        "since": found.since,
        "sent": found.sent,
        "outcomes": {outcome.value: number for outcome, number in found.outcomes.items()},
        "missing": len(found.missing),
        "missing_ids": list(found.missing),
        "stale_ids": list(found.stale),
        "others": found.others,
        "complete": found.complete,
    }


def _listed_ids(ids: Sequence[str]) -> str:
    more = len(ids) - MAX_LISTED_IDS
    return ", ".join(ids[:MAX_LISTED_IDS]) + (f" and {more} more" if more > 0 else "")
