"""The services of a stack for one command. Most of the services are created on first use."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.cli.render.output import Columns, OutputFormat, Shown, notice, show, show_one
from faultbridge.cli.stack.locate import (
    Target,
    checked_endpoint,
    chosen_embedded_stack,
    find_settings,
    require_embedded_stack,
    use_environment,
)
from faultbridge.model.errors import Misconfigured
from faultbridge.model.settings import PREFIX

if TYPE_CHECKING:
    from datetime import datetime

    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.adapters.aws.stack import StackSecret
    from faultbridge.model.settings import Settings
    from faultbridge.record.ports import Ports, Receipts, RecordQueue
    from faultbridge.record.timeline import Timeline
    from faultbridge.record.verify import AnchoredHashes, Verify
    from faultbridge.repair.findings.judgments import Judgments
    from faultbridge.repair.registry.job_views import JobViews
    from faultbridge.repair.registry.views import Views
    from faultbridge.serve.wiring.installation import Installation


@dataclass
class Session:
    """The stack and output format of one command; `embedded` uses only the embedded stack."""

    target: Target
    output: OutputFormat
    embedded: bool = False
    changes: bool = False

    @property
    def prints_table(self) -> bool:
        """Return whether the output is a table for people, and not JSON for scripts."""
        return self.output.for_people

    def show(self, documents: Iterable[Shown], columns: Columns) -> None:
        """Print documents as a list, in the output format of the command."""
        show(documents, columns, self.output)

    def show_one(self, document: Shown, columns: Columns) -> None:
        """Print one document, in the output format of the command."""
        show_one(document, columns, self.output)

    @cached_property
    def settings(self) -> Settings:
        """Return the settings of the stack; the first use finds the stack."""
        return find_settings(self.target, lambda: self.clients, notice, embedded_only=self.embedded)

    @cached_property
    def clients(self) -> Clients:
        """Return AWS clients for the Region, profile and endpoint of the options and the environment."""
        from faultbridge.adapters.aws.clients import SERVICES, Clients

        target = self.target
        if self.embedded:
            use_environment(require_embedded_stack(target.stack).environment)
            return Clients()
        variables = [f"AWS_ENDPOINT_URL_{suffix}" for _, suffix, _ in SERVICES.values()]
        for name in variables if target.endpoint_url else ("AWS_ENDPOINT_URL", *variables):
            checked_endpoint(name, os.environ.get(name) or None)
        return Clients(region=target.region, profile=target.profile, endpoint_url=target.endpoint_url)

    @property
    def place(self) -> str:
        """Return the place for a question, as in `stack faultbridge (us-east-1)`."""
        named = f"context {self.target.context}: " if self.target.context else ""
        if chosen_embedded_stack(self.target, embedded_only=self.embedded) is not None:
            return f"{named}embedded stack {self.target.stack}"
        region = self.target.region or self.clients.region or "default region"
        return f"{named}stack {self.target.stack} ({region})"

    def place_document(self) -> dict[str, str | None]:
        """Return the context, stack, AWS account and Region that this command uses."""
        is_embedded = chosen_embedded_stack(self.target, embedded_only=self.embedded) is not None
        _, _, _, region, account, *_ = [
            *self.application.settings.variables.get(f"{PREFIX}STATE_MACHINE", "").split(":"),
            *[""] * 5,
        ]
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

        settings = self.settings
        return on_aws(settings, self.clients)

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
        from faultbridge.repair.registry.views import Views

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
        from faultbridge.record.timeline import Timeline

        return Timeline(self.ports.table)

    @cached_property
    def judgments(self) -> Judgments:
        """Return the service that reads findings and records whether they were right."""
        from faultbridge.repair.findings.judgments import Judgments

        return Judgments(self.application.append)

    @cached_property
    def verify(self) -> Verify:
        """Return the service that verifies the sequences and hash chains of streams."""
        from faultbridge.record.verify import Verify

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

    def anchors(self, cluster: str) -> AnchoredHashes:
        """Return the hashes in the vault's anchors, which record where each stream of a cluster ends."""
        from faultbridge.record.archive.verification import anchored_hashes

        return anchored_hashes(self.application.ports.vault, cluster)

    @cached_property
    def receipts(self) -> Receipts:
        """Return the receipt log, which lists the records that were sent and their outcomes."""
        from faultbridge.adapters.aws.receipts import LogReceipts

        settings = self.settings
        return LogReceipts(
            self.clients, group=settings.senders_log_group, also_read=(settings.ingest_log_group,), now=self.now
        )
