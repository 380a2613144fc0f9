"""The settings of one deployment, from environment variables with the prefix `FAULTBRIDGE_`.

A variable is checked when its setting is read, so a function needs only the variables that it uses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Generic, Self, TypeVar, overload

from msgspec import Struct, field

from faultbridge.model.errors import Misconfigured

PREFIX = "FAULTBRIDGE_"

T = TypeVar("T")


class Variable(Generic[T]):
    """A setting of a deployment, which is read from one environment variable.

    The name of the variable is the name of the setting in upper case, with the prefix `FAULTBRIDGE_`. A blank variable
    counts as not set. If the variable is not set, the default applies. A setting without a default is required.
    """

    def __init__(
        self, description: str, convert: Callable[[str], T], default: T | Callable[[Settings], T] | None = None
    ) -> None:
        self.description = description
        self._convert = convert
        self._default = default

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = PREFIX + name.upper()

    @overload
    def __get__(self, settings: None, owner: type) -> Self: ...

    @overload
    def __get__(self, settings: Settings, owner: type) -> T: ...

    def __get__(self, settings: Settings | None, owner: type) -> Self | T:
        """Return the value of the setting, or its default if the variable is not set.

        For an access through the class `Settings`, `settings` is None, and this `Variable` is returned. Raises
        Misconfigured if the value is invalid, or if there is neither a value nor a default.
        """
        if settings is None:
            return self
        text = settings.variables.get(self.name)
        if text is None or not text.strip():
            value = self._default(settings) if callable(self._default) else self._default
            if value is None:
                raise Misconfigured(f"{self.name} is not set ({self.description})")
            return value
        try:
            return self._convert(text)
        except ValueError:
            raise Misconfigured(f"{self.name} is not an integer: {text!r} ({self.description})") from None


def _required(description: str) -> Variable[str]:
    return Variable(description, str)


def _optional(description: str) -> Variable[str]:
    return Variable(description, str.strip, "")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Settings(Struct, frozen=True):
    """The settings of one deployment; each attribute except `variables` is one setting."""

    variables: Mapping[str, str] = field(default_factory=dict)

    stack = Variable("the name of the stack", str, "faultbridge")
    stack_id = _required("the id that every event id is derived from; it stays the same after a restore")
    repair_tag = Variable(
        "the value of the tag faultbridge:stack on resources that may be changed; default the stack name",
        str.strip,
        lambda settings: settings.stack,
    )
    table = _required("the name of the DynamoDB table")
    bus = _required("the name or ARN of the EventBridge bus")
    event_source = Variable("the `source` field of every event", str, "faultbridge")
    queue_url = _required("the URL of the queue of raw records")
    dead_letter_queue_url = _required("the URL of the dead-letter queue of raw records")
    events_queue_url = _optional("the URL of the queue of AWS service events")
    events_dead_letter_queue_url = _optional("the URL of the dead-letter queue of AWS service events")
    events_queue = Variable("the ARN of the queue that only EventBridge may send to", str, "-")
    bucket = _required("the name of the bucket for raw records and evidence")

    archive_bucket = _required("the name of the archive bucket")
    archive_stream = _optional(
        "the name of the Firehose stream to the archive; without one, objects are written directly"
    )
    vault_bucket = _required(
        "the name of the bucket for anchors (hourly Merkle roots), whose objects cannot be changed"
    )
    entry_days = Variable("how many days a sealed entry stays in the table; 0 keeps it forever", int, 0)
    token_secret = _required("the ARN or name of the secret that signs page tokens")
    state_machine = _required("the ARN of the replacement state machine")

    urgent_topic = _required("the ARN of the SNS topic for urgent pages")
    notice_topic = _required("the ARN of the SNS topic for notifications without urgency")
    chat_topic = _optional("the ARN of the SNS topic of Amazon Q Developer in chat applications")
    pagerduty_topic = _optional("the ARN of the SNS topic of the PagerDuty integration")
    pagerduty = _optional("the way to the PagerDuty Events API: `bus`, an https URL, or empty to disable it")
    pagerduty_key = _required("the name or ARN of the secret with the PagerDuty routing key; used with an https URL")
    chat_webhooks = _optional("the name or ARN of the secret with the webhook addresses of Slack and Microsoft Teams")
    on_call = _optional("the name or ARN of the secret with the people who give orders through Slack and PagerDuty")
    job_topic = _optional("the ARN of the SNS topic for jobs that may resume")
    job_callbacks = _optional("the name or ARN of the secret with the webhooks for jobs that may resume")
    slurm_tokens = _optional("the name or ARN of the secret with the tokens of slurmrestd, by its address")
    max_pages_per_hour = Variable(
        "the maximum number of pages about single nodes per cluster, clock hour and urgency", int, 10
    )
    reminder_hours = Variable("the hours after which an open urgent page is repeated", int, 4)
    runbook_url = _optional("the base URL of the runbooks; if empty, pages name their files in the repository")
    api_url = _optional("the base URL of the HTTP API and the webhooks, for the command line")
    console_url = _optional("the address of the console, for the links in pages; if empty, pages contain no link")

    hyperpod_mirror = Variable(
        "clusters with events also in the format of SageMaker HyperPod, separated by spaces", _words, frozenset[str]()
    )
    sender_proof = Variable(
        "`required`, or `off` where the queue does not name the sender (emulators)", lambda text: text != "off", True
    )
    own_senders = Variable(
        "role ids of the Faultbridge functions that send records, separated by spaces", _words, frozenset[str]()
    )
    webhook_senders = _optional("the name or ARN of the secret with the webhook senders")
    ingest_log_group = Variable(
        "the log group of the ingest function, which contains its receipts",
        str,
        lambda settings: f"/aws/lambda/{settings.stack}-ingest",
    )
    senders_log_group = Variable(
        "the log group for receipts of senders", str, lambda settings: f"/faultbridge/{settings.stack}/senders"
    )

    output_prefix = Variable(
        "the key prefix of verification output in the bucket", lambda text: text.rstrip("/"), "verify"
    )
    probe_seconds = Variable("the first interval for polling a slow operation, in seconds", int, 30)
    verify_level = Variable("the level of `dcgmi diag -r` (1 to 4)", int, 3)
    verify_seconds = Variable(
        "the timeout of a verification in seconds, to which `ssm-deep` and `ssm-pair` add 20 minutes at level 4; the"
        " default is the duration of level 4 of `dcgmi diag`",
        int,
        5400,
    )
    ignore_processes = Variable(
        "the programs that may use the GPUs during a verification, separated by spaces",
        _words,
        frozenset({"nv-hostengine", "dcgm-exporter", "nvidia-cuda-mps-server", "nvidia-cuda-mps-control"}),
    )
    clock_offset_seconds = Variable("the offset of the clock in seconds; for tests of the embedded stack only", int, 0)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Return settings from the variables that start with `FAULTBRIDGE_`; by default, those of the process."""
        source = os.environ if environment is None else environment
        return cls({name: value for name, value in source.items() if name.startswith(PREFIX)})
