"""`faultbridge ack`, `silence` and `test-page`: take a case over, hold pages, and see whether pages arrive."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from msgspec import Struct

from faultbridge.cli.commands.options import AnyClusterOption, CaseArgument, ClusterOption, ReasonOption
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, BadParameter, Exit, Option, Text, command
from faultbridge.cli.render.columns import CASE_OWNER, case_document
from faultbridge.cli.render.output import Columns, fields
from faultbridge.cli.render.times import FUTURE_HELP, parse_future_time
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession, WaitOption, show_awaited, wait_until
from faultbridge.model.cluster import silences
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import EPOCH, from_text
from faultbridge.record.ports import PageUrgency
from faultbridge.repair.registry.documents import Silence, shared
from faultbridge.serve.pager.rules import test_page_kind
from faultbridge.serve.wiring.services import wire_case_orders, wire_controls

DELIVERIES: Columns = fields("PAGE, DELIVERED, SECONDS, MESSAGE=message_id, PROBLEM")


@command("ack", "c-abcdefghijklmnopqrstuvwxyz --reason 'I call the vendor'")
def acknowledge(session: ChangingSession, case: CaseArgument, reason: ReasonOption = "") -> None:
    """Acknowledge a case: you own it, and no urgent page about it is repeated for the time of the policy.

    Repairs of the case continue.
    """
    wire_case_orders(session.application).acknowledge(case, session.order(reason))
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
    session.remark("look for these pages where you receive pages; they need no action")
    if not all(one.delivered for one in sent):
        raise Exit(EXIT_NOT_WELL)


def _deliveries(session: Session, cluster: str, wait: int) -> Iterator[Delivery]:
    order, controls = session.order(), wire_controls(session.application)
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


SILENCES: Columns = fields("SILENCE=id, CLUSTER, HOLDS PAGES OF=scope, FROM=since:time, UNTIL:time, BY, REASON")


class ListedSilence(Silence, frozen=True, kw_only=True):
    """A silence with its cluster, and with its matchers as text."""

    cluster: str
    scope: str


def _listed(cluster: str, one: silences.Silence) -> ListedSilence:
    return shared(ListedSilence, one, cluster=cluster)


def _pattern(what: str) -> Option:
    return Option("PATTERN", f"Only pages about {what}; * matches any text.")


@command(
    "silence add",
    "--cluster train-a --node gpu-7 --until 2h \\",
    "    --reason 'RMA 123'",
    "--cluster train-a --rack 'r-*' --until 1d \\",
    "    --reason 'power work'",
)
def add_silence(
    session: ChangingSession,
    cluster: ClusterOption,
    until: Annotated[str, Option("TIME", f"End, at most 30 days from now: {FUTURE_HELP}.")],
    reason: ReasonOption = "",
    since: Annotated[Text, Option("--from TIME", f"Start: {FUTURE_HELP}. Default: now.")] = None,
    group: Annotated[str | None, _pattern("nodes of this instance group")] = None,
    rack: Annotated[str | None, _pattern("nodes of this failure domain, such as a rack")] = None,
    node: Annotated[str | None, _pattern("this node")] = None,
    mode: Annotated[str | None, _pattern("this failure mode")] = None,
) -> None:
    """Hold the pages of a cluster that match until a time. Faults, events and repairs continue.

    Without a pattern, every page of the cluster is held. When the silence ends, one line says how many pages it held,
    and the pages that are still open are sent.
    """
    if not reason:
        raise BadParameter("no reason given: a silence needs --reason")
    now = session.now()
    end, start = parse_future_time(until, now), parse_future_time(since, now, "--from")
    wanted = silences.Silence(
        id="", by="", reason="", since=start or EPOCH, until=end or now, group=group, rack=rack, node=node, mode=mode
    )
    order = session.order(reason)
    made = wire_controls(session.application).silence(cluster, order, wanted)
    session.show([_listed(cluster, made)], SILENCES)


@command("silence list", "", "--cluster train-a")
def list_silences(session: StackSession, cluster: AnyClusterOption = None, wait: WaitOption = 0) -> None:
    """List the silences that have not ended, the earliest start first."""

    def read() -> Iterator[ListedSilence]:
        for name in session.cluster_names(cluster):
            found = session.directory.cluster(name).control.silences.values()
            yield from (_listed(name, one) for one in sorted(found, key=lambda one: one.since))

    show_awaited(session, read, SILENCES, wait)


@command("silence end", "sil-abcdefghijkl --cluster train-a")
def end_silence(
    session: ChangingSession,
    silence: Annotated[str, Argument("ID", "Id of the silence.")],
    cluster: ClusterOption,
    reason: ReasonOption = "",
) -> None:
    """End a silence before its time. The pages that are still open are sent within a minute."""
    wire_controls(session.application).end_silence(cluster, silence, session.order(reason))
    left = session.directory.cluster(cluster).control.silences.values()
    session.show([_listed(cluster, one) for one in left], SILENCES)
