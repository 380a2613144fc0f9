"""`faultbridge ack`, `silence`, `test-page`, `pause`, `resume` and `breaker`: orders for pages and repairs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from msgspec import Struct

from faultbridge.cli.commands.options import (
    CLUSTER_VARIABLE,
    AnyClusterOption,
    CaseArgument,
    ClusterOption,
    ReasonOption,
    YesOption,
    confirm,
    default_cluster,
)
from faultbridge.cli.declare import EXIT_NOT_WELL, EXIT_TRY_AGAIN, Argument, BadParameter, Exit, Option, Text, command
from faultbridge.cli.render.columns import CASE_OWNER, CLUSTER, case_document, cluster_document
from faultbridge.cli.render.output import Columns, fields
from faultbridge.cli.render.times import FUTURE_HELP, parse_future_time
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession, WaitOption, show_awaited, wait_until
from faultbridge.model.cluster import silences
from faultbridge.model.cluster.state import Control, domain_of
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import EPOCH, from_text
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.repair.registry.documents import Cluster, Silence, shared
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
    seconds = max(0, int((from_text(str(found["sent_at"])) - start).total_seconds()))
    message = str(found["message_id"]) or None
    held = None if message else "held: `faultbridge silence list`, or the hourly limit"
    return Delivery(name, delivered=message is not None, seconds=seconds, message_id=message, problem=held)


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


BREAKERS: Columns = fields("SCOPE, STATE, SINCE:time, FAILING") | {
    "SCOPE": lambda one: one.domain or "cluster",
    "FAILING": lambda one: f"{one.failing} of {one.of}",
}


CONTROL: Columns = {title: CLUSTER[title] for title in ("Cluster", "Paused", "Repairs running")}
CONTROLS: Columns = {title.upper(): cell for title, cell in CONTROL.items()} | fields("PAUSED:yes")

OneClusterOption = Annotated[Text, Option("--cluster CLUSTER", f"Name of the cluster. Default: {CLUSTER_VARIABLE}.")]
AllOption = Annotated[bool, Option("--all", "All clusters of the stack; asks first.")]


@command("pause", "--cluster train-a --reason 'switch work' --until 2h", "--all")
def pause(
    session: ChangingSession,
    cluster: OneClusterOption = None,
    everything: AllOption = False,
    reason: ReasonOption = "",
    until: Annotated[Text, Option("TIME", f"End: {FUTURE_HELP}. Default: no end.")] = None,
    yes: YesOption = False,
) -> None:
    """Pause new repairs in a cluster, or in all clusters.

    Repairs that are running continue. `faultbridge case cancel` can stop a repair before the repair records its intent,
    the point of no return.
    """
    end = parse_future_time(until, session.now())
    names = _clusters(session, cluster, "pauses new repairs", everything=everything, yes=yes)
    controls, order = wire_controls(session.application), session.order(reason)
    for name in names:
        controls.pause(name, order, end)
    documents = _show(session, names, listed=everything)
    running = sum(len(one.holders) for one in documents)
    if running:
        session.remark(
            f"repairs that run and continue: {running}; `faultbridge case cancel CASE` stops one before its intent"
        )


@command("resume", "--cluster train-a", "--all")
def resume(
    session: ChangingSession,
    cluster: OneClusterOption = None,
    everything: AllOption = False,
    reason: ReasonOption = "",
    force: Annotated[bool, Option(help="Also end the pauses of other people.")] = False,
    yes: YesOption = False,
) -> None:
    """End your own pause of a cluster, or of all clusters.

    Repairs stay paused while another person's pause is left.
    """
    names = _clusters(session, cluster, "resumes repairs", everything=everything, yes=yes)
    controls, order = wire_controls(session.application), session.order(reason)
    for name in names:
        if everything and not force and order.person not in controls.read(name).pauses:
            continue
        controls.resume(name, order, force=force)
    left = [one.cluster for one in _show(session, names, listed=everything) if one.paused]
    if left:
        session.remark(f"still paused by others: {', '.join(left)}; `faultbridge resume --force` ends their pauses too")


@command("breaker", "--cluster train-a", "--cluster train-a --close")
def show_breakers(
    session: ChangingSession,
    cluster: ClusterOption,
    close: Annotated[bool, Option(help="Close the breakers although nodes are still failing.")] = False,
    yes: YesOption = False,
    wait: Annotated[
        int, Option("SECONDS", "Wait up to SECONDS until a breaker is not closed. Exit code 75: all are closed.", min=0)
    ] = 0,
) -> None:
    """Show or close the repair breakers of a cluster.

    A breaker opens when too many nodes of a cluster or failure domain fail at once. While the breaker is open,
    Faultbridge takes no node of this cluster or failure domain out of service.
    """
    controls = wire_controls(session.application)
    if close and wait:
        raise BadParameter("conflicting options: --close and --wait; give one of them")
    if close:
        controls.read(cluster)
        confirm(f"repairs of {cluster} start again although nodes are still failing", yes=yes)
        session.show(breaker_documents(controls.close_breakers(cluster, session.operator)), BREAKERS)
        return

    def opened() -> list[Breaker]:
        return [one for one in breaker_documents(controls.read(cluster)) if one.state != "closed"]

    is_open = bool(wait_until(opened, wait)) if wait else True
    session.show(breaker_documents(controls.read(cluster)), BREAKERS)
    if not is_open:
        raise Exit(EXIT_TRY_AGAIN)


def _clusters(session: Session, cluster: str | None, effect: str, *, everything: bool, yes: bool) -> list[str]:
    if not everything:
        named = cluster or default_cluster()
        if named is None:
            raise BadParameter("no cluster named: give --cluster or --all")
        return [named]
    if cluster is not None:
        raise BadParameter("conflicting options: --cluster and --all; give one of them")
    names = session.cluster_names()
    confirm(f"this {effect} in all {len(names)} clusters of the stack", yes=yes)
    return names


def _show(session: Session, names: list[str], *, listed: bool) -> list[Cluster]:
    documents = [cluster_document(session.directory.cluster(name)) for name in names]
    if listed:
        session.show(documents, CONTROLS)
    else:
        session.show_one(documents[0], CONTROL)
    return documents


class Breaker(Struct, frozen=True):
    """A breaker of a cluster, or of a failure domain, as a command prints it."""

    cluster: str
    domain: str | None
    state: str
    since: datetime
    failing: int
    of: int
    stays_open: bool


def breaker_documents(control: Control) -> list[Breaker]:
    """Return each breaker that has opened at least once in a cluster, with its current state."""
    found = sorted(control.breakers.items())
    return [shared(Breaker, one, cluster=control.cluster, domain=domain_of(name)) for name, one in found]
