"""`faultbridge status`: shows what runs, the queue depths, overdue work and backlogs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from faultbridge import local
from faultbridge.cli.declare import EXIT_UNREACHABLE, Exit, command
from faultbridge.cli.render.output import Columns, Document, fields, notice
from faultbridge.cli.stack.locate import chosen_embedded_stack
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.entry_text import duration_text
from faultbridge.serve.ops.backlog import OVERDUE, BacklogItem
from faultbridge.serve.wiring.services import wire_backlog

_BACKLOG: Columns = fields("Queues, Overdue=stuck, Reports, Backlog") | {
    "Queues": lambda one: "\n".join(map(_queue_text, one["queues"])),
    "Reports": lambda one: "\n".join(
        f"{each['cluster']}: agents report from {each['reporting']} of {each['nodes']}" for each in one["reports"]
    ),
    "Backlog": lambda one: "\n".join(_backlog_lines(one["waiting"])),
}
EMBEDDED: Columns = fields("Stack, Up:yes, Emulators, Repairs running=executions_running") | {
    "Emulators": lambda one: "\n".join(
        f"{each['name']} {each['endpoint']} (pid {each['pid']}{'' if each['serving'] else ', does not respond'})"
        for each in one["emulators"]
    ),
    **_BACKLOG,
}
DEPLOYED: Columns = fields("Stack, Table, Bus") | {**_BACKLOG}
BACKLOG_TITLES = {
    "unpublished": "unpublished entries",
    "timers": "timers due",
    "records": "raw records",
    "rejects": "rejected records",
    "sweep": "last sweep",
    "canary": "last canary",
    "subscriptions": "subscribers",
}
COUNTED = frozenset({"unpublished", "timers", "records", "rejects", "subscriptions"})


@command("status", "", "--json", "--region us-east-1")
def show_status(session: StackSession) -> None:
    """Show what runs, queue depths, work that is overdue by 5 minutes, and the age of each backlog.

    Exit code 69: no stack is found.
    """
    if chosen_embedded_stack(session.target) is not None:
        _show_embedded(session)
        return
    try:
        session.settings  # noqa: B018 - finds the stack on AWS, as for every other command
    except Misconfigured as error:
        if session.target.selects_aws:
            raise
        _show_embedded(session, str(error))
        return
    session.show_one(_deployed_status(session), DEPLOYED)


def _show_embedded(session: Session, problem: str = "the embedded stack is not up; `faultbridge up` starts it") -> None:
    found = local.status(stack=session.target.stack, count_overdue=lambda: overdue(session))
    outputs = found.outputs or {}
    aws = {"table": outputs.get("TableName"), "bus": outputs.get("EventBusName")}
    waiting = backlog(session) if found.up else []
    session.show_one(
        found.as_json() | aws | {"waiting": waiting, "reports": reports(session) if found.up else []}, EMBEDDED
    )
    if not found.up:
        notice(problem)
        raise Exit(EXIT_UNREACHABLE)


def overdue(session: Session) -> int:
    """Return how many timers and retries of rejected records have been due for at least five minutes."""
    return wire_backlog(session.application).overdue()


def reports(session: Session) -> list[dict[str, Any]]:
    """Return for each cluster from how many of its nodes reports arrive, as the sweep last found."""
    found = ((name, session.directory.cluster(name).coverage) for name in session.cluster_names())
    return [
        {"cluster": name, "nodes": one.nodes, "reporting": one.reporting, "never_reported": len(one.never)}
        for name, one in found
        if one is not None
    ]


def backlog(session: Session) -> list[dict[str, Any]]:
    """Return a document for each kind of waiting work, for the latest sweep, and for the latest canary.

    `seconds` is the age of the oldest item, None if nothing waits or the time is unknown. `stuck` is True if it is too
    long.
    """
    now = session.now()
    return [
        {
            "what": one.what,
            "count": one.count,
            "since": one.since,
            "seconds": int((now - one.since).total_seconds()) if one.since else None,
            "stuck": one.stuck,
            "note": one.note,
        }
        for one in (*wire_backlog(session.application).list(), _queued_records(session, now))
    ]


def _queued_records(session: Session, now: datetime) -> BacklogItem:
    from faultbridge.adapters.aws.messaging import queue_age

    count = session.ports.queue.depth().waiting
    age = queue_age(session.clients, session.settings.queue_url.rsplit("/", 1)[-1], now) if count else None
    note = "age unknown: CloudWatch has no data" if count and age is None else ""
    since = now - age if age is not None else None
    return BacklogItem("records", count, since, stuck=age is not None and age > OVERDUE, note=note)


def _deployed_status(session: Session) -> dict[str, Any]:
    from faultbridge.adapters.aws.messaging import SqsQueue

    settings = session.settings
    queue = SqsQueue(session.clients, settings.queue_url, settings.dead_letter_queue_url)
    depth = queue.depth()
    name = settings.queue_url.rsplit("/", 1)[-1]
    queues = [
        _queue(name, depth.waiting, depth.in_flight, dead_letters=False),
        _queue("dead letters", depth.dead, 0, dead_letters=True),
        *_cloud_event_queues(session),
    ]
    found = local.StackStatus(settings.stack, up=True, stuck=overdue(session)).as_json()
    aws = {"table": settings.table, "bus": settings.bus, "queues": queues, "executions_running": None}
    return found | aws | {"waiting": [*backlog(session), _subscriptions(session)], "reports": reports(session)}


def _subscriptions(session: Session) -> dict[str, Any]:
    """Return a row about the subscriptions of the urgent topic: without any, alarms and urgent pages are not seen."""
    from faultbridge.adapters.paging import confirmed_subscriptions

    row = {"what": "subscriptions", "since": None, "seconds": None}
    try:
        count = confirmed_subscriptions(session.clients, session.settings.urgent_topic)
    except (Misconfigured, Transient) as error:
        return row | {"count": 0, "stuck": False, "note": str(error)}
    note = "" if count else "the urgent topic has no confirmed subscription: subscribe the operators (docs/pages.md)"
    return row | {"count": count, "stuck": not count, "note": note}


def _cloud_event_queues(session: Session) -> Iterator[dict[str, Any]]:
    if session.cloud_events is None:
        return
    for queue, name in zip(session.cloud_events, ("cloud events' dead letters", "cloud events"), strict=True):
        depth = queue.depth()
        yield _queue(name, depth.waiting, depth.in_flight, dead_letters="dead" in name)


def _queue(name: str, waiting: int, in_flight: int, *, dead_letters: bool) -> dict[str, Any]:
    return {"name": name, "logical_id": None, "waiting": waiting, "in_flight": in_flight, "dead_letters": dead_letters}


def _queue_text(one: Document) -> str:
    kind = " (dead letters)" if one["dead_letters"] and "dead letters" not in one["name"] else ""
    return f"{one['name']}{kind}: {one['waiting']} waiting, {one['in_flight']} in flight"


def _backlog_lines(rows: Iterable[Document]) -> Iterator[str]:
    width = max(map(len, BACKLOG_TITLES.values()))
    for one in rows:
        age = duration_text(one["seconds"] * 1000) if one["seconds"] is not None else ""
        count = str(one["count"]) if one["what"] in COUNTED else ""
        since = (f"oldest {age}" if count else f"{age} ago") if age else "" if count else "never"
        parts = [text for text in (count, since, "STUCK" if one["stuck"] else "", one["note"]) if text]
        yield f"{BACKLOG_TITLES[one['what']]:<{width}}  {', '.join(parts)}"
