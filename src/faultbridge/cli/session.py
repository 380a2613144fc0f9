"""The stack that a command works on: found by its options, and its services put together when they are used."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from faultbridge.cli.output import Columns, Document, Form, JsonFlag, JsonlFlag, form_of, notice, show, show_one

if TYPE_CHECKING:
    from datetime import datetime

    from faultbridge.adapters.clients import Clients
    from faultbridge.bootstrap import Application
    from faultbridge.ledger.timeline import Timeline
    from faultbridge.ledger.verify import Seen, Verify
    from faultbridge.ports import Ports, Receipts, RecordQueue
    from faultbridge.registry.views import Views
    from faultbridge.settings import Settings

DEFAULT_STACK = "faultbridge"
# Any of these in the environment says which AWS is meant.
_SAID = ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_ACCESS_KEY_ID")


@dataclass(frozen=True, slots=True)
class Target:
    """Which stack, and where."""

    stack: str = DEFAULT_STACK
    endpoint_url: str | None = None
    region: str | None = None
    profile: str | None = None

    @property
    def said(self) -> bool:
        """Tell whether options or environment name an AWS, so that an embedded stack is not meant."""
        given = (self.endpoint_url, self.region, self.profile)
        return any(given) or any(os.environ.get(name) for name in _SAID)


class Session:
    """One command's view of one stack: its services, and the form in which to print."""

    def __init__(self, target: Target, form: Form, *, embedded: bool = False) -> None:
        self.target = target
        self.form = form
        self._embedded = embedded

    @property
    def for_people(self) -> bool:
        """Tell whether a person reads the output."""
        return self.form is Form.PEOPLE

    def show(self, documents: Iterable[Document], columns: Columns) -> None:
        """Print a list."""
        show(documents, columns, self.form)

    def show_one(self, document: Document, columns: Columns) -> None:
        """Print one thing."""
        show_one(document, columns, self.form)

    @cached_property
    def settings(self) -> Settings:
        """Find the stack: the embedded one when it is up and nothing else was said, else by its outputs on AWS."""
        from faultbridge.cli.stacks import settings_of

        return settings_of(self.target, lambda: self.clients, notice, embedded_only=self._embedded)

    @cached_property
    def clients(self) -> Clients:
        """Make AWS clients as the options say."""
        from faultbridge.adapters.clients import Clients

        target = self.target
        return Clients(region=target.region, profile=target.profile, endpoint_url=target.endpoint_url)

    @cached_property
    def application(self) -> Application:
        """Put the stack's services together."""
        from faultbridge.bootstrap import of_settings

        settings = self.settings
        return of_settings(settings, self.clients)

    @cached_property
    def operator(self) -> str:
        """Return the ARN of who gives an order."""
        from faultbridge.adapters.caller import caller_arn

        self.settings  # noqa: B018 - finds the stack, and with it where AWS answers
        return caller_arn(self.clients)

    @property
    def ports(self) -> Ports:
        """Reach the stack's parts."""
        return self.application.ports

    def now(self) -> datetime:
        """Tell the time as the stack does."""
        return self.ports.clock.now()

    @cached_property
    def directory(self) -> Views:
        """Look up clusters, nodes and cases."""
        from faultbridge.registry.views import Views

        return Views(self.ports.table)

    @cached_property
    def timeline(self) -> Timeline:
        """Read entries."""
        from faultbridge.ledger.timeline import Timeline

        return Timeline(self.ports.table)

    @cached_property
    def verify(self) -> Verify:
        """Prove streams whole."""
        from faultbridge.ledger.verify import Verify

        return Verify(self.ports.table, self.application.stack)

    @cached_property
    def dead_letters(self) -> RecordQueue:
        """Reach the raw records that were given up."""
        from faultbridge.adapters.sqs import SqsQueue

        return SqsQueue(self.clients, self.settings.dead_letter_queue_url)

    @cached_property
    def cloud_events(self) -> tuple[RecordQueue, RecordQueue] | None:
        """Reach the cloud events that were given up and the queue they came from; None where a stack has neither."""
        from faultbridge.adapters.sqs import SqsQueue

        dead, queue = self.settings.events_dead_letter_queue_url, self.settings.events_queue_url
        return (SqsQueue(self.clients, dead), SqsQueue(self.clients, queue)) if dead and queue else None

    def anchors(self, cluster: str) -> Seen:
        """Read what the vault saw of a cluster."""
        from faultbridge.archive.anchor_reader import AnchorReader

        return AnchorReader(self.application.keeping.vault)(cluster)

    @cached_property
    def receipts(self) -> Receipts:
        """Read and write receipts as a sender does."""
        from faultbridge.adapters.receipts import LogReceipts

        settings = self.settings
        return LogReceipts(
            self.clients,
            group=settings.senders_log_group,
            also_read=(settings.ingest_log_group,),
            now=self.now,
        )


StackOption = Annotated[str, typer.Option("--stack", help="The name of the stack.", show_default=True)]
EndpointOption = Annotated[str | None, typer.Option("--endpoint-url", help="Where AWS answers, if not at AWS.")]
RegionOption = Annotated[str | None, typer.Option("--region", help="The AWS region of the stack.")]
ProfileOption = Annotated[str | None, typer.Option("--profile", help="The profile of the AWS configuration.")]


def _options(
    stack: StackOption = DEFAULT_STACK,
    endpoint_url: EndpointOption = None,
    region: RegionOption = None,
    profile: ProfileOption = None,
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> Session:
    """Take the options that every command on a stack has."""
    return Session(Target(stack, endpoint_url, region, profile), form_of(as_json=as_json, as_jsonl=as_jsonl))


def on_stack(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that name a stack and a form, and the session that they make as first argument."""
    shared = inspect.signature(_options, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]

    @functools.wraps(command)
    def called(**given: Any) -> None:  # noqa: ANN401 - what typer read from the command line
        session = _options(**{name: given.pop(name) for name in shared})
        command(session, **given)

    parameters = [*own, *shared.values()]
    keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    called.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]  # what typer reads
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called
