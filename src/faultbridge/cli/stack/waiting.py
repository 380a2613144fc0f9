"""The option `--wait` of commands that print a list: wait until the list has a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Annotated, TypeVar

import typer

from faultbridge.cli.errors.failures import EXIT_TRY_AGAIN
from faultbridge.cli.render.output import Columns, Document
from faultbridge.cli.stack.session import Session

Found = TypeVar("Found")

POLL_SECONDS = 1

WaitOption = Annotated[
    int,
    typer.Option(
        "--wait",
        min=0,
        metavar="SECONDS",
        help="Wait up to SECONDS for the first row. Exit code 75: there is still none.",
    ),
]


def pause() -> None:
    """Wait one second, until the next poll."""
    time.sleep(POLL_SECONDS)


def show_awaited(session: Session, read: Callable[[], Iterable[Document]], columns: Columns, seconds: int) -> None:
    """Print the list that `read` returns. If `seconds` is not 0, first wait up to `seconds` for a row.

    If the list is still empty after this wait, the command exits with code 75.
    """
    if seconds == 0:
        session.show(read(), columns)
        return
    found = wait_until(lambda: list(read()), seconds)
    session.show(found, columns)
    if not found:
        raise typer.Exit(EXIT_TRY_AGAIN)


def wait_until(read: Callable[[], Found], seconds: int) -> Found:
    """Call `read` each second until its result is true, for up to `seconds`; returns the last result."""
    while not (found := read()) and seconds > 0:
        pause()
        seconds -= POLL_SECONDS
    return found
