"""Read the names that exist on a stack, to propose the closest names for an unknown name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.names import did_you_mean
from faultbridge.errors import FaultbridgeError, Rejected, UnknownName
from faultbridge.log import log_cause

if TYPE_CHECKING:
    from faultbridge.cli.stack.session import Session

Made = TypeVar("Made")

MAX_READ_NAMES = 5000
"""Maximum number of existing names that are compared with an unknown one."""

MAX_READ_CASES = 500
"""Maximum number of cases of each cluster whose ids are compared: those opened last."""


def proposes_names(command: Callable[..., Made]) -> Callable[..., Made]:
    """Decorate a command, so that its error about an unknown name proposes the closest names."""

    @functools.wraps(command)
    def called(session: Session, **given: Any) -> Made:  # noqa: ANN401 - each option has its own type
        try:
            return command(session=session, **given)
        except UnknownName as error:
            raise with_closest(error, session) from error

    return called


def with_closest(error: UnknownName, session: Session) -> Rejected:
    """Return the error about an unknown name, with the closest existing names.

    If the cluster in the error does not exist, return an error about the cluster. If the existing names cannot be read,
    the error proposes none.
    """
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
    jobs = session.application.jobs.jobs
    return (one.id for name in session.cluster_names(cluster) for one in jobs.rows(name))


def _policies(session: Session, _cluster: str | None) -> Iterable[str]:
    from faultbridge.data.policies import default_document
    from faultbridge.rules.policies import PolicyStore

    stored = PolicyStore(session.ports.table, session.ports.clock).stored()
    return (default_document()["version"], *(one.version for one in stored))


def _senders(session: Session, _cluster: str | None) -> Iterable[str]:
    from faultbridge.gateway.senders import senders_of

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
