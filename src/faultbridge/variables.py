"""The `FAULTBRIDGE_*` variables: what each means, and how one is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from faultbridge.errors import Misconfigured

PREFIX = "FAULTBRIDGE_"

MEANINGS: Mapping[str, str] = {
    "STACK": "the name of the stack",
    "STACK_ID": "the id that every event id is derived from",
    "TABLE": "the name of the DynamoDB table",
    "BUS": "the name or ARN of the EventBridge bus",
    "EVENT_SOURCE": "the `source` of every event",
    "QUEUE_URL": "the URL of the queue of raw records",
    "DEAD_LETTER_QUEUE_URL": "the URL of the raw records' dead-letter queue",
    "EVENTS_QUEUE_URL": "the URL of the queue of cloud events",
    "EVENTS_DEAD_LETTER_QUEUE_URL": "the URL of the cloud events' dead-letter queue",
    "BUCKET": "the name of the bucket for raw records and evidence",
    "ARCHIVE_BUCKET": "the name of the bucket of the archive",
    "ARCHIVE_STREAM": "the name of the Firehose stream into the archive; without one, objects are put directly",
    "VAULT_BUCKET": "the name of the bucket of the anchors, whose objects nobody can change",
    "ENTRY_DAYS": "how many days an entry stays in the table once it is sealed; 0 is for ever",
    "TOKEN_SECRET": "the ARN or name of the secret that page tokens are signed with",
    "STATE_MACHINE": "the ARN of the replacement state machine",
    "URGENT_TOPIC": "the ARN of the SNS topic for pages that a person must answer now",
    "NOTICE_TOPIC": "the ARN of the SNS topic for pages that may be read later",
    "PAGERDUTY_TOPIC": "the ARN of the SNS topic that PagerDuty's integration subscribes to",
    "CHAT_TOPIC": "the ARN of the SNS topic that Amazon Q Developer in chat applications subscribes to",
    "PAGERDUTY": "how PagerDuty's Events API is reached: `bus`, an https URL, or not at all",
    "PAGERDUTY_KEY": "the name or ARN of the secret with PagerDuty's routing key, for an https URL",
    "MAX_PAGES_PER_HOUR": "how many pages about single nodes a cluster may have in a clock hour, for each urgency",
    "REMINDER_HOURS": "after how many hours an urgent page that nobody ends is repeated",
    "REPAIR_TAG": "the value of the tag faultbridge:stack on what may be given up; the stack's name if empty",
    "RUNBOOK_URL": "where the runbooks are read; empty names their files in the repository",
    "TIMELINE_URL": "where the record is read, without the path of a cluster",
    "HYPERPOD_MIRROR": "clusters whose events are copied in the shape of SageMaker HyperPod's, apart by blanks",
    "SENDER_PROOF": "`required`, or `off` where the queue does not say who sent (emulators)",
    "OWN_SENDERS": "ids of the roles of our own functions that send records, apart by blanks",
    "WEBHOOK_SENDERS": "the name or ARN of the secret that says who may post",
    "EVENTS_QUEUE": "the ARN of the queue on which only EventBridge may put",
    "INGEST_LOG_GROUP": "the log group of the ingest function, where its receipts are",
    "SENDERS_LOG_GROUP": "the log group where senders put their receipts",
    "OUTPUT_PREFIX": "the key prefix under which verification output is kept in the bucket",
    "PROBE_SECONDS": "the first pause between two looks at a slow operation, in seconds",
    "VERIFY_LEVEL": "the level of `dcgmi diag -r` (1 to 4)",
    "VERIFY_SECONDS": "how long a verification may run, in seconds",
    "CLOCK_OFFSET_SECONDS": "how far the clock is moved; for tests of the embedded stack only",
}


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables of one deployment; reading one that is missing raises Misconfigured with its name.

    Nothing is checked before it is read, so a function needs only the variables that its own work reads.
    """

    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Copy the variables that begin with `FAULTBRIDGE_`, of the process unless others are given."""
        source = os.environ if environment is None else environment
        return cls({name: value for name, value in source.items() if name.startswith(PREFIX)})

    def text(self, name: str, default: str | None = None) -> str:
        """Return a variable; an empty one is not set, and one that is not set and has no default is Misconfigured."""
        value = self.variables.get(PREFIX + name) or default
        if value is None:
            raise Misconfigured(f"{PREFIX}{name} is not set ({MEANINGS[name]})")
        return value

    def whole(self, name: str, default: int) -> int:
        """Return a variable as a whole number; anything else is Misconfigured."""
        text = self.text(name, str(default))
        try:
            return int(text)
        except ValueError:
            meaning = MEANINGS[name]
            raise Misconfigured(f"{PREFIX}{name} is {text!r}, not a whole number ({meaning})") from None
