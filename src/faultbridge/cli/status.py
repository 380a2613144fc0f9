"""`faultbridge status`: what runs where, how deep the queues are, what is stuck."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from faultbridge.cli.failures import EXIT_UNREACHABLE
from faultbridge.cli.output import Columns, Document, notice
from faultbridge.cli.session import Session, on_stack
from faultbridge.domain.times import to_text

if TYPE_CHECKING:
    from datetime import datetime

    from faultbridge.ops.backlog import Waiting

EPILOG = "Example: faultbridge status --json"

EMBEDDED: Columns = {
    "Stack": lambda one: one["stack"],
    "Up": lambda one: "yes" if one["up"] else "no",
    "Emulators": lambda one: "\n".join(
        f"{each['name']} {each['endpoint']} (pid {each['pid']}{'' if each['serving'] else ', does not answer'})"
        for each in one["emulators"]
    ),
    "Queues": lambda one: "\n".join(map(_queue_text, one["queues"])),
    "Repairs running": lambda one: one["executions_running"],
    "Overdue": lambda one: one["stuck"],
    "Waiting": lambda one: "\n".join(_waiting_lines(one["waiting"])),
}
DEPLOYED: Columns = {
    "Stack": lambda one: one["stack"],
    "Table": lambda one: one["table"],
    "Bus": lambda one: one["bus"],
    "Queues": lambda one: "\n".join(map(_queue_text, one["queues"])),
    "Overdue": lambda one: one["stuck"],
    "Waiting": lambda one: "\n".join(_waiting_lines(one["waiting"])),
}
WORDS = {
    "unpublished": "entries for the bus",
    "timers": "timers due",
    "records": "raw records",
    "rejects": "records rejected",
    "sweep": "last sweep",
    "canary": "last canary",
}

COUNTED = frozenset({"unpublished", "timers", "records", "rejects"})


@on_stack
def command(session: Session) -> None:
    """Say what runs where, how deep the queues are, how much is overdue by five minutes, what waits and since when.

    Exit code 69: the stack is not up.
    """
    from faultbridge.local import status

    if session.target.said:
        session.show_one(_deployed(session), DEPLOYED)
        return
    found = status(stack=session.target.stack, count_stuck=lambda: overdue(session))
    told = found.as_json() | {"queues": [_queue(one) for one in found.as_json()["queues"]]}
    session.show_one(told | {"waiting": waiting(session) if found.up else []}, EMBEDDED)
    if not found.up:
        notice("the embedded stack is not up (faultbridge up)")
        raise typer.Exit(EXIT_UNREACHABLE)


def overdue(session: Session) -> int:
    """Count what should have been looked at five minutes ago: timers, waits, deadlines."""
    return session.application.stuck.overdue()


def waiting(session: Session) -> list[dict[str, Any]]:
    """Describe what waits, and since when; `seconds` is how long, `stuck` whether that is too long."""
    now = session.now()
    return [
        {
            "what": one.what,
            "count": one.count,
            "since": to_text(one.since) if one.since else None,
            "seconds": int((now - one.since).total_seconds()) if one.since else None,
            "stuck": one.stuck,
            "note": one.note,
        }
        for one in (*session.application.stuck(), _records(session, now))
    ]


def _records(session: Session, now: datetime) -> Waiting:
    from faultbridge.adapters.queue_age import queue_age
    from faultbridge.ops.backlog import OVERDUE, Waiting

    count = session.ports.queue.depth().waiting
    age = queue_age(session.clients, session.settings.queue_url.rsplit("/", 1)[-1], now) if count else None
    note = "since when, only CloudWatch knows" if count and age is None else ""
    since = now - age if age is not None else None
    return Waiting("records", count, since, stuck=age is not None and age > OVERDUE, note=note)


def _deployed(session: Session) -> dict[str, Any]:
    from faultbridge.adapters.sqs import SqsQueue

    settings = session.settings
    queue = SqsQueue(session.clients, settings.queue_url, settings.dead_letter_queue_url)
    depth = queue.depth()
    name = settings.queue_url.rsplit("/", 1)[-1]
    return {
        "stack": settings.stack,
        "table": settings.table,
        "bus": settings.bus,
        "queues": [
            {"name": name, "waiting": depth.waiting, "in_flight": depth.in_flight, "dead_letters": False},
            {"name": "dead letters", "waiting": depth.dead, "in_flight": 0, "dead_letters": True},
            *_cloud_events(session),
        ],
        "stuck": overdue(session),
        "waiting": waiting(session),
    }


def _cloud_events(session: Session) -> Iterator[dict[str, Any]]:
    if session.cloud_events is None:
        return
    for queue, name in zip(session.cloud_events, ("cloud events' dead letters", "cloud events"), strict=True):
        depth, dead = queue.depth(), "dead" in name
        yield {"name": name, "waiting": depth.waiting, "in_flight": depth.in_flight, "dead_letters": dead}


def _queue(one: Document) -> dict[str, Any]:
    return dict(one)


def _queue_text(one: Document) -> str:
    kind = " (dead letters)" if one["dead_letters"] and "dead letters" not in one["name"] else ""
    return f"{one['name']}{kind}: {one['waiting']} waiting, {one['in_flight']} in flight"


def _waiting_lines(rows: Iterable[Document]) -> Iterator[str]:
    from faultbridge.ledger.entry_text import duration_text

    width = max(map(len, WORDS.values()))
    for one in rows:
        ago = duration_text(one["seconds"] * 1000) if one["seconds"] is not None else ""
        count = str(one["count"]) if one["what"] in COUNTED else ""
        since = (f"since {ago}" if count else f"{ago} ago") if ago else "" if count else "never"
        said = [text for text in (count, since, "STUCK" if one["stuck"] else "", one["note"]) if text]
        yield f"{WORDS[one['what']]:<{width}}  {', '.join(said)}"
