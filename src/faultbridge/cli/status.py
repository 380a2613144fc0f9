"""`faultbridge status`: what runs where, how deep the queues are, what is stuck."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import typer

from faultbridge.cli.failures import EXIT_UNREACHABLE
from faultbridge.cli.output import Columns, Document, notice
from faultbridge.cli.session import Session, on_stack
from faultbridge.domain.times import to_text

EPILOG = "Example: faultbridge status --json"
OVERDUE = timedelta(minutes=5)

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
}
DEPLOYED: Columns = {
    "Stack": lambda one: one["stack"],
    "Table": lambda one: one["table"],
    "Bus": lambda one: one["bus"],
    "Queues": lambda one: "\n".join(map(_queue_text, one["queues"])),
    "Overdue": lambda one: one["stuck"],
}


@on_stack
def command(session: Session) -> None:
    """Say what runs where, how deep the queues are, and how much is overdue by five minutes or more.

    Exit code 69: the stack is not up.
    """
    from faultbridge.local import status

    if session.target.said:
        session.show_one(_deployed(session), DEPLOYED)
        return
    found = status(stack=session.target.stack, count_stuck=lambda: overdue(session))
    session.show_one(found.as_json() | {"queues": [_queue(one) for one in found.as_json()["queues"]]}, EMBEDDED)
    if not found.up:
        notice("the embedded stack is not up (faultbridge up)")
        raise typer.Exit(EXIT_UNREACHABLE)


def overdue(session: Session) -> int:
    """Count what should have been looked at five minutes ago: timers, waits, deadlines."""
    from faultbridge.services.rows import every
    from faultbridge.storage import keys
    from faultbridge.storage.writes import WORK

    horizon = to_text(session.now() - OVERDUE)
    table = session.ports.table
    return sum(1 for timers in keys.TIMERS for _ in every(table, timers, upto=horizon, index=WORK))


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
