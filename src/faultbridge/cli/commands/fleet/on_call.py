"""`faultbridge ack` and `test-page`: take a case over, and see whether pages arrive."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from msgspec import Struct

from faultbridge.cli.commands.options import CaseArgument, ClusterOption, ReasonOption
from faultbridge.cli.declare import Exit, Option, command
from faultbridge.cli.errors import EXIT_NOT_WELL
from faultbridge.cli.render.columns import CASE_OWNER, case_document
from faultbridge.cli.render.output import Columns, fields, notice
from faultbridge.cli.stack.command import ChangingSession, wait_until
from faultbridge.cli.stack.session import Session
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import from_text
from faultbridge.record.ports import PageUrgency
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.pager.rules import test_page_kind
from faultbridge.serve.wiring.services import wire_case_orders, wire_controls

DELIVERIES: Columns = fields("PAGE", "DELIVERED", "SECONDS", "MESSAGE=message_id", "PROBLEM")


@command("ack", "c-abcdefghijklmnopqrstuvwxyz --reason 'I call the vendor'")
def acknowledge(session: ChangingSession, case: CaseArgument, reason: ReasonOption = "") -> None:
    """Acknowledge a case: you own it, and no urgent page about it is repeated for the time of the policy.

    Repairs of the case continue.
    """
    wire_case_orders(session.application).acknowledge(case, OperatorOrder(session.operator, reason))
    session.show_one(case_document(session.directory.case(case), session.now()), CASE_OWNER)


class Delivery(Struct, frozen=True):
    """What became of one test page: when and under which message id it was sent, or the problem."""

    page: str
    delivered: bool
    seconds: int | None
    message_id: str | None
    problem: str | None


@command("test-page", "--cluster train-a")
def send_test_pages(
    session: ChangingSession,
    cluster: ClusterOption,
    wait: Annotated[int, Option("SECONDS", "Wait up to SECONDS for each page.", min=1)] = 60,
) -> None:
    """Send a page of each urgency through the record, the bus and the pager, resolve it, and report each delivery.

    A delivery is a page that every configured topic and PagerDuty accepted. Chats get it afterwards, so look there too.
    Exit code 1: a page was not delivered.
    """
    sent = list(_deliveries(session, cluster, wait))
    session.show(sent, DELIVERIES)
    if session.prints_table:
        notice("look for these pages where you receive pages; they need no action")
    if not all(one.delivered for one in sent):
        raise Exit(EXIT_NOT_WELL)


def _deliveries(session: Session, cluster: str, wait: int) -> Iterator[Delivery]:
    order, controls = OperatorOrder(session.operator), wire_controls(session.application)
    for urgency in PageUrgency:
        for over in (False, True):
            before, start = _record(session, cluster, urgency), session.now()
            controls.test_page(cluster, urgency, order, over=over)
            known = before["event_id"] if before else None

            def processed(urgency: PageUrgency = urgency, known: object = known) -> Item | None:
                found = _record(session, cluster, urgency)
                done = found is not None and found["event_id"] != known and found["state"] == "sent"
                return found if done else None

            name = f"{urgency.value} {'resolved' if over else 'triggered'}"
            yield _delivery(name, wait_until(processed, wait), start, wait)


def _record(session: Session, cluster: str, urgency: PageUrgency) -> Item | None:
    return session.ports.table.get(keys.page_notification(cluster, test_page_kind(urgency)))


def _delivery(name: str, found: Item | None, start: datetime, wait: int) -> Delivery:
    if found is None:
        problem = f"not processed within {wait} s: `faultbridge status` shows the queues, the pager's log has the error"
        return Delivery(name, delivered=False, seconds=None, message_id=None, problem=problem)
    message, seconds = str(found["message_id"]), max(0, int((from_text(str(found["sent_at"])) - start).total_seconds()))
    if not message:
        problem = "held: `faultbridge silence list`, or the hourly limit"
        return Delivery(name, delivered=False, seconds=seconds, message_id=None, problem=problem)
    return Delivery(name, delivered=True, seconds=seconds, message_id=message, problem=None)
