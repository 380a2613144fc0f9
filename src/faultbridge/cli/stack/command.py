"""Adds to commands the options that select a stack and an output format."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Annotated, TypeVar

import click

from faultbridge.cli.commands.options import Format
from faultbridge.cli.declare import Exit, Group, Option
from faultbridge.cli.errors import EXIT_TRY_AGAIN
from faultbridge.cli.render.output import Columns, Shown
from faultbridge.cli.stack.context import CONTEXT_VARIABLE, context_target
from faultbridge.cli.stack.locate import DEFAULT_STACK, Target, checked_endpoint
from faultbridge.cli.stack.session import Session
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import FaultbridgeError, Rejected, UnknownName
from faultbridge.model.log import log_cause
from faultbridge.model.names import did_you_mean

MAX_READ_NAMES = 5000
"""Maximum number of existing names that are compared with an unknown one."""

MAX_READ_CASES = 500
"""Maximum number of cases of each cluster whose ids are compared: those opened last."""


def with_closest(error: UnknownName, session: Session) -> Rejected:
    """Return the error about an unknown name, or about its cluster, with the closest existing names."""
    read = KNOWN_NAMES.get(error.kind)
    try:
        existing = list(islice(read(session, error.cluster), MAX_READ_NAMES)) if read else []
    except UnknownName as unknown_cluster:
        return with_closest(unknown_cluster, session)
    except FaultbridgeError as failure:  # it must not replace the error about the name
        log_cause("known_names_not_read", reason=str(failure), kind=error.kind)
        existing = []
    return Rejected(error.reason, error.detail + did_you_mean(error.name, existing))


def _nodes(session: Session, cluster: str | None) -> Iterable[str]:
    views = (session.directory.cluster(name) for name in session.cluster_names(cluster))
    return (one.node for view in views for one in session.directory.roster(view.config))


def _cases(session: Session, cluster: str | None) -> Iterable[str]:
    views, read = map(session.directory.cluster, session.cluster_names(cluster)), session.directory.recent_cases
    return (one.case.id for view in views for one in read(view.config, tuple(CaseStatus), MAX_READ_CASES))


def _incidents(session: Session, cluster: str | None) -> Iterable[str]:
    names, read = session.cluster_names(cluster), session.directory.incidents
    return (view.incident.id for name in names for view in read(name, closed=True))


def _findings(session: Session, cluster: str | None) -> Iterable[str]:
    return (one.id for one in session.judgments.list(session.cluster_names(cluster), ended=True))


def _jobs(session: Session, cluster: str | None) -> Iterable[str]:
    from faultbridge.serve.wiring.services import wire_jobs

    jobs = wire_jobs(session.application)
    return (one.id for name in session.cluster_names(cluster) for one in jobs.rows(name))


def _policies(session: Session, _cluster: str | None) -> Iterable[str]:
    from faultbridge.decode.data.policies import default_document
    from faultbridge.record.policies import PolicyStore

    stored = PolicyStore(session.ports.table, session.ports.clock).stored()
    return (default_document()["version"], *(one.version for one in stored))


def _senders(session: Session, _cluster: str | None) -> Iterable[str]:
    from faultbridge.serve.gateway.webhooks import senders_of

    return senders_of(session.webhook_senders())


KNOWN_NAMES: Mapping[str, Callable[[Session, str | None], Iterable[str]]] = {
    "case": _cases,
    "cluster": lambda session, _cluster: session.cluster_names(),
    "finding": _findings,
    "incident": _incidents,
    "job": _jobs,
    "node": _nodes,
    "policy": _policies,
    "sender": _senders,
}
"""The function that reads the existing names of each kind, in one cluster, or in all clusters for None."""


def open_session(
    output: Format,
    stack: Annotated[str | None, Option("NAME", "Name of the stack.")] = None,
    endpoint_url: Annotated[str | None, Option("URL", "AWS endpoint URL. Default: the AWS endpoint.")] = None,
    region: Annotated[str | None, Option("REGION", "AWS region of the stack.")] = None,
    profile: Annotated[str | None, Option("PROFILE", "AWS configuration profile.")] = None,
    context: Annotated[
        str | None, Option("NAME", "Context of `faultbridge context list`.", envvar=CONTEXT_VARIABLE)
    ] = None,
) -> Session:
    """Return the session of the stack that the options or the context select."""
    given = Target(stack or DEFAULT_STACK, checked_endpoint("--endpoint-url", endpoint_url), region, profile)
    if stack is None and not given.has_options:
        given = context_target(context) or given
    return use_session(Session(given, output))


def use_session(session: Session) -> Session:
    """Store the session for the error about an unknown name, which proposes names of its stack."""
    click.get_current_context().find_root().obj = session
    return session


def _changing(session: Session) -> Session:
    session.changes = True
    return session


StackSession = Annotated[Session, Group(open_session)]
"""The stack of a command that reads."""

ChangingSession = Annotated[Session, Group(open_session, _changing)]
"""The stack of a command that changes something: at its end, a line on stderr names the stack."""


Found = TypeVar("Found")

POLL_SECONDS = 1

WaitOption = Annotated[
    int, Option("--wait SECONDS", "Wait up to SECONDS for the first row. Exit code 75: there is still none.", min=0)
]


def pause() -> bool:
    """Wait one second, until the next poll; returns True, so that `follow` polls again."""
    time.sleep(POLL_SECONDS)
    return True


def show_awaited(session: Session, read: Callable[[], Iterable[Shown]], columns: Columns, seconds: int) -> None:
    """Print the list that `read` returns; without a row after `seconds`, exit with code 75."""
    if seconds == 0:
        session.show(read(), columns)
        return
    found = wait_until(lambda: list(read()), seconds)
    session.show(found, columns)
    if not found:
        raise Exit(EXIT_TRY_AGAIN)


def wait_until(read: Callable[[], Found], seconds: int, done: Callable[[Found], bool] = bool) -> Found:
    """Call `read` each second until its result is true or `done`, for up to `seconds`; returns the last result."""
    while not done(found := read()) and seconds > 0:
        pause()
        seconds -= POLL_SECONDS
    return found
