"""The stack of a command: its services, most of them created on first use, and the options that select it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import click

from faultbridge.cli.commands.options import Format
from faultbridge.cli.declare import EXIT_TRY_AGAIN, Exit, Group, Option, Text
from faultbridge.cli.render.output import Columns, OutputFormat, Shown, fields, notice, show, show_one
from faultbridge.cli.stack import locate
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Rejected, UnknownName
from faultbridge.model.log import log_cause
from faultbridge.model.names import did_you_mean
from faultbridge.model.settings import PREFIX
from faultbridge.record.timeline import Timeline
from faultbridge.record.verify import Verify
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.views import Views
from faultbridge.serve.wiring.services import wire_jobs

if TYPE_CHECKING:
    from datetime import datetime

    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.adapters.aws.stack import StackSecret
    from faultbridge.model.settings import Settings
    from faultbridge.record.ports.installation import Ports
    from faultbridge.record.ports.messaging import Receipts, RecordQueue
    from faultbridge.repair.findings.judgments import Judgments
    from faultbridge.repair.registry.job_views import JobViews
    from faultbridge.serve.wiring.installation import Installation


WRITTEN: Columns = fields("File, Size") | {"Size": lambda one: f"{one['bytes'] / 1000:.0f} KB"}


@dataclass
class Session:
    """The stack and output format of one command; `embedded` uses only the embedded stack."""

    target: locate.Target
    output: OutputFormat
    embedded: bool = False
    changes: bool = False

    def show(self, documents: Iterable[Shown], columns: Columns) -> None:
        """Print documents as a list, in the output format of the command."""
        show(documents, columns, self.output)

    def show_one(self, document: Shown, columns: Columns) -> None:
        """Print one document, in the output format of the command."""
        show_one(document, columns, self.output)

    def remark(self, text: str) -> None:
        """Print a notice on stderr, unless the output is JSON for scripts."""
        if self.output.for_people:
            notice(text)

    def prints_document(self, document: Shown) -> bool:
        """Print a whole document and return True, unless the output is a table for people."""
        if not self.output.for_people:
            show_one(document, {}, self.output)
        return not self.output.for_people

    def show_written(self, path: Path) -> None:
        """Print the path and the size of a file that the command wrote."""
        self.show_one({"file": str(path), "bytes": path.stat().st_size}, WRITTEN)

    def write_page(self, text: str, file: Path | None, name: str) -> None:
        """Write an HTML page to `file`, or to `NAME.html` in the current folder, and print its path and size."""
        path = file or Path(f"{name}.html")
        path.write_text(text, encoding="utf-8")
        self.show_written(path)

    def order(self, reason: str = "") -> OperatorOrder:
        """Return an order of the AWS principal that runs the command."""
        return OperatorOrder(self.operator, reason)

    @cached_property
    def settings(self) -> Settings:
        """Return the settings of the stack; the first use finds the stack."""
        return locate.find_settings(self.target, lambda: self.clients, notice, embedded_only=self.embedded)

    @cached_property
    def clients(self) -> Clients:
        """Return AWS clients for the Region, profile and endpoint of the options and the environment."""
        from faultbridge.adapters.aws.clients import SERVICES, Clients

        target = self.target
        if self.embedded:
            locate.use_environment(locate.require_embedded_stack(target.stack).environment)
            return Clients()
        variables = [f"AWS_ENDPOINT_URL_{suffix}" for _, suffix, _ in SERVICES.values()]
        for name in variables if target.endpoint_url else ("AWS_ENDPOINT_URL", *variables):
            locate.checked_endpoint(name, os.environ.get(name) or None)
        return Clients(region=target.region, profile=target.profile, endpoint_url=target.endpoint_url)

    @property
    def place(self) -> str:
        """Return the place for a question, as in `stack faultbridge (us-east-1)`."""
        named = f"context {self.target.context}: " if self.target.context else ""
        if locate.chosen_embedded_stack(self.target, embedded_only=self.embedded) is not None:
            return f"{named}embedded stack {self.target.stack}"
        region = self.target.region or self.clients.region or "default region"
        return f"{named}stack {self.target.stack} ({region})"

    def place_document(self) -> dict[str, str | None]:
        """Return the context, stack, AWS account and Region that this command uses."""
        is_embedded = locate.chosen_embedded_stack(self.target, embedded_only=self.embedded) is not None
        arn = self.application.settings.variables.get(f"{PREFIX}STATE_MACHINE", "")
        _, _, _, region, account, *_ = f"{arn}:::::".split(":")
        kind = " (embedded on this machine)" if is_embedded else ""
        return {
            "context": self.target.context,
            "stack": self.target.stack + kind,
            "account": account or None,
            "region": region or self.target.region,
        }

    @cached_property
    def application(self) -> Installation:
        """Return the services of the stack."""
        from faultbridge.serve.wiring.installation import on_aws

        return on_aws(self.settings, self.clients)

    @cached_property
    def operator(self) -> str:
        """Return the ARN of the AWS principal that runs the command."""
        from faultbridge.adapters.aws.stack import caller_arn

        self.settings  # noqa: B018 - finds the stack, which sets the AWS endpoint
        return caller_arn(self.clients)

    @property
    def ports(self) -> Ports:
        """Return the adapters of the stack, such as its table and clock."""
        return self.application.ports

    def now(self) -> datetime:
        """Return the current time of the clock that the stack uses."""
        return self.ports.clock.now()

    @cached_property
    def directory(self) -> Views:
        """Return the service that reads clusters, nodes and cases."""
        return Views(self.ports.table)

    @property
    def jobs(self) -> JobViews:
        """Return the service that reads jobs."""
        from faultbridge.repair.registry.job_views import JobViews

        return JobViews(self.ports.table)

    def applies_at(self) -> datetime:
        """Return the time by which every process has read a change of settings that is made now."""
        from faultbridge.serve.ingest.caches import DEFAULT_TTL

        return self.now() + DEFAULT_TTL

    def cluster_names(self, cluster: str | None = None) -> list[str]:
        """Return the name of one registered cluster or, without an argument, of all clusters."""
        if cluster is not None:
            return [self.directory.cluster(cluster).config.cluster]
        return self.directory.cluster_names()

    @cached_property
    def timeline(self) -> Timeline:
        """Return the service that reads timeline entries."""
        return Timeline(self.ports.table)

    @cached_property
    def judgments(self) -> Judgments:
        """Return the service that reads findings and records whether they were right."""
        from faultbridge.repair.findings.judgments import Judgments

        return Judgments(self.application.append)

    @cached_property
    def verify(self) -> Verify:
        """Return the service that verifies the sequences and hash chains of streams."""
        return Verify(self.ports.table, self.application.stack)

    @cached_property
    def dead_letters(self) -> RecordQueue:
        """Return the SQS dead-letter queue of raw records."""
        from faultbridge.adapters.aws.messaging import SqsQueue

        return SqsQueue(self.clients, self.settings.dead_letter_queue_url)

    @cached_property
    def cloud_events(self) -> tuple[RecordQueue, RecordQueue] | None:
        """Return the dead-letter queue and the queue of AWS service events; None if it receives none."""
        from faultbridge.adapters.aws.messaging import SqsQueue

        dead, queue = self.settings.events_dead_letter_queue_url, self.settings.events_queue_url
        return (SqsQueue(self.clients, dead), SqsQueue(self.clients, queue)) if dead and queue else None

    @cached_property
    def webhook_senders(self) -> StackSecret:
        """Return the secret with the webhook senders. Raises Misconfigured if the stack has no such secret."""
        from faultbridge.adapters.aws.stack import StackSecret

        name = self.settings.webhook_senders
        if not name:
            raise Misconfigured("the stack accepts no webhooks; deploy it with the parameter WebhookSenders")
        return StackSecret(self.clients, name)

    @cached_property
    def receipts(self) -> Receipts:
        """Return the receipt log, which lists the records that were sent and their outcomes."""
        from faultbridge.adapters.aws.receipts import LogReceipts

        settings = self.settings
        return LogReceipts(
            self.clients, group=settings.senders_log_group, also_read=(settings.ingest_log_group,), now=self.now
        )


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


def _nodes(session: Session, cluster: str | None) -> Iterator[str]:
    for name in session.cluster_names(cluster):
        yield from (one.node for one in session.directory.roster(session.directory.cluster(name).config))


def _cases(session: Session, cluster: str | None) -> Iterator[str]:
    for name in session.cluster_names(cluster):
        config = session.directory.cluster(name).config
        for view in session.directory.recent_cases(config, tuple(CaseStatus), MAX_READ_CASES):
            yield view.case.id


def _policies(session: Session, _cluster: str | None) -> Iterator[str]:
    from faultbridge.decode.data.policies import default_document
    from faultbridge.record.policies import PolicyStore

    yield default_document()["version"]
    yield from (one.version for one in PolicyStore(session.ports.table, session.ports.clock).stored())


def _senders(session: Session, _cluster: str | None) -> Iterable[str]:
    from faultbridge.serve.gateway.webhooks import senders_of

    return senders_of(session.webhook_senders())


KNOWN_NAMES: Mapping[str, Callable[[Session, str | None], Iterable[str]]] = {
    "case": _cases,
    "cluster": lambda session, _cluster: session.cluster_names(),
    "finding": lambda session, cluster: (
        one.id for one in session.judgments.list(session.cluster_names(cluster), ended=True)
    ),
    "incident": lambda session, cluster: (
        view.incident.id
        for name in session.cluster_names(cluster)
        for view in session.directory.incidents(name, closed=True)
    ),
    "job": lambda session, cluster: (
        one.id for name in session.cluster_names(cluster) for one in wire_jobs(session.application).rows(name)
    ),
    "node": _nodes,
    "policy": _policies,
    "sender": _senders,
}
"""The function that reads the existing names of each kind, in one cluster, or in all clusters for None."""


def open_session(
    output: Format,
    stack: Annotated[Text, Option("NAME", "Name of the stack.")] = None,
    endpoint_url: Annotated[Text, Option("URL", "AWS endpoint URL. Default: the AWS endpoint.")] = None,
    region: Annotated[Text, Option("REGION", "AWS region of the stack.")] = None,
    profile: Annotated[Text, Option("PROFILE", "AWS configuration profile.")] = None,
    context: Annotated[
        Text, Option("NAME", "Context of `faultbridge context list`.", envvar=locate.CONTEXT_VARIABLE)
    ] = None,
) -> Session:
    """Return the session of the stack that the options or the context select."""
    given = locate.Target(
        stack or locate.DEFAULT_STACK, locate.checked_endpoint("--endpoint-url", endpoint_url), region, profile
    )
    if stack is None and not given.has_options:
        given = locate.context_target(context) or given
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
