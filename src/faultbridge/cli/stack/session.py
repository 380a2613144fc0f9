"""One command's access to one stack. Each service is created when it is first used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.cli.render.output import Columns, Document, OutputFormat, notice, show, show_one
from faultbridge.cli.stack.locate import Target, find_settings
from faultbridge.errors import Misconfigured

if TYPE_CHECKING:
    from datetime import datetime

    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.adapters.aws.stack import StackSecret
    from faultbridge.composition.installation import Installation
    from faultbridge.findings.judgments import Judgments
    from faultbridge.ledger.timeline import Timeline
    from faultbridge.ledger.verify import AnchoredHashes, Verify
    from faultbridge.ports import Ports, Receipts, RecordQueue
    from faultbridge.registry.job_views import JobViews
    from faultbridge.registry.views import Views
    from faultbridge.settings import Settings


@dataclass
class Session:
    """The stack and the output format of one command.

    Where `embedded` is true, the session never uses a stack on AWS.
    """

    target: Target
    output: OutputFormat
    embedded: bool = False

    @property
    def prints_table(self) -> bool:
        """Return whether the output is for people."""
        return self.output.for_people

    def show(self, documents: Iterable[Document], columns: Columns) -> None:
        """Print documents as a list, in the output format of the command."""
        show(documents, columns, self.output)

    def show_one(self, document: Document, columns: Columns) -> None:
        """Print one document, in the output format of the command."""
        show_one(document, columns, self.output)

    @cached_property
    def settings(self) -> Settings:
        """Find the stack and return its settings."""
        return find_settings(self.target, lambda: self.clients, notice, embedded_only=self.embedded)

    @cached_property
    def clients(self) -> Clients:
        """Create AWS clients for the region, profile and endpoint of the target."""
        from faultbridge.adapters.aws.clients import Clients

        target = self.target
        return Clients(region=target.region, profile=target.profile, endpoint_url=target.endpoint_url)

    @cached_property
    def application(self) -> Installation:
        """Create the services of the stack."""
        from faultbridge.composition.installation import on_aws

        settings = self.settings
        return on_aws(settings, self.clients)

    @cached_property
    def operator(self) -> str:
        """Return the ARN of the AWS principal that runs the command."""
        from faultbridge.adapters.aws.credentials import caller_arn

        self.settings  # noqa: B018 - finds the stack, which sets the AWS endpoint
        return caller_arn(self.clients)

    @property
    def ports(self) -> Ports:
        """Return the ports of the stack."""
        return self.application.ports

    def now(self) -> datetime:
        """Return the current time of the stack's clock."""
        return self.ports.clock.now()

    @cached_property
    def directory(self) -> Views:
        """Return the service that reads clusters, nodes and cases."""
        from faultbridge.registry.views import Views

        return Views(self.ports.table)

    @property
    def jobs(self) -> JobViews:
        """Return the service that reads jobs."""
        from faultbridge.registry.job_views import JobViews

        return JobViews(self.ports.table)

    def applies_at(self) -> datetime:
        """Return when every process will have read a change of settings made now; until then the old ones may apply."""
        from faultbridge.ingest.caches import DEFAULT_TTL

        return self.now() + DEFAULT_TTL

    def cluster_names(self, cluster: str | None = None) -> list[str]:
        """Return one cluster, or all by default. Raises UnknownName for a cluster that is not registered."""
        if cluster is not None:
            return [self.directory.cluster(cluster).config.cluster]
        return self.directory.cluster_names()

    @cached_property
    def timeline(self) -> Timeline:
        """Return the service that reads timeline entries."""
        from faultbridge.ledger.timeline import Timeline

        return Timeline(self.ports.table)

    @cached_property
    def judgments(self) -> Judgments:
        """Return the service that reads and judges findings."""
        from faultbridge.findings.judgments import Judgments

        return Judgments(self.application.ledger.append)

    @cached_property
    def verify(self) -> Verify:
        """Return the service that verifies sequences and hash chains."""
        from faultbridge.ledger.verify import Verify

        return Verify(self.ports.table, self.application.stack)

    @cached_property
    def dead_letters(self) -> RecordQueue:
        """Return the dead-letter queue of raw records."""
        from faultbridge.adapters.messaging.sqs import SqsQueue

        return SqsQueue(self.clients, self.settings.dead_letter_queue_url)

    @cached_property
    def cloud_events(self) -> tuple[RecordQueue, RecordQueue] | None:
        """Return the dead-letter queue and the queue of cloud events, or None where the stack has neither."""
        from faultbridge.adapters.messaging.sqs import SqsQueue

        dead, queue = self.settings.events_dead_letter_queue_url, self.settings.events_queue_url
        return (SqsQueue(self.clients, dead), SqsQueue(self.clients, queue)) if dead and queue else None

    @cached_property
    def webhook_senders(self) -> StackSecret:
        """Return the secret with the webhook senders. Raises Misconfigured where the stack has none."""
        from faultbridge.adapters.aws.stack import StackSecret

        name = self.settings.webhook_senders
        if not name:
            raise Misconfigured("the stack accepts no webhooks; deploy it with the parameter WebhookSenders")
        return StackSecret(self.clients, name)

    def anchors(self, cluster: str) -> AnchoredHashes:
        """Read the anchors of a cluster from the vault."""
        from faultbridge.archive.anchor_reader import AnchorReader

        return AnchorReader(self.application.ports.vault)(cluster)

    @cached_property
    def receipts(self) -> Receipts:
        """Return the receipt log, in which senders list the records that they sent, and ingest their outcomes."""
        from faultbridge.adapters.messaging.receipts import LogReceipts

        settings = self.settings
        return LogReceipts(
            self.clients,
            group=settings.senders_log_group,
            also_read=(settings.ingest_log_group,),
            now=self.now,
        )
