"""What a deployment tells the code, read once from `FAULTBRIDGE_*` variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

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
    "BUCKET": "the name of the bucket for raw records and evidence",
    "ARCHIVE_BUCKET": "the name of the bucket of the archive",
    "ARCHIVE_STREAM": "the name of the Firehose stream into the archive; without one, objects are put directly",
    "VAULT_BUCKET": "the name of the bucket of the anchors, whose objects nobody can change",
    "ENTRY_DAYS": "how many days an entry stays in the table once it is sealed; 0 is for ever",
    "TOKEN_SECRET": "the ARN or name of the secret that page tokens are signed with",
    "STATE_MACHINE": "the ARN of the replacement state machine",
    "URGENT_TOPIC": "the ARN of the SNS topic for pages that a person must answer now",
    "NOTICE_TOPIC": "the ARN of the SNS topic for pages that may be read later",
    "PAGES_AN_HOUR": "how many pages about single nodes a cluster may have in a clock hour, for each urgency",
    "REMINDER_HOURS": "after how many hours an urgent page that nobody ends is repeated",
    "RUNBOOK_URL": "where the runbooks are read; empty names their files in the repository",
    "TIMELINE_URL": "where the record is read, without the path of a cluster",
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
class Settings:
    """The variables of one deployment; reading one that is missing raises Misconfigured with its name.

    Nothing is checked before it is read, so a function needs only the variables that its own work reads.
    """

    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Copy the variables that begin with `FAULTBRIDGE_`, of the process unless others are given."""
        source = os.environ if environment is None else environment
        return cls({name: value for name, value in source.items() if name.startswith(PREFIX)})

    @property
    def stack(self) -> str:
        """Return the name of the stack."""
        return self._text("STACK", "faultbridge")

    @property
    def stack_id(self) -> str:
        """Return the id from which event ids are derived; it outlives a restore."""
        return self._text("STACK_ID")

    @property
    def table(self) -> str:
        """Return the name of the table."""
        return self._text("TABLE")

    @property
    def bus(self) -> str:
        """Return the name or ARN of the bus."""
        return self._text("BUS")

    @property
    def event_source(self) -> str:
        """Return the `source` of every event."""
        return self._text("EVENT_SOURCE", "faultbridge")

    @property
    def queue_url(self) -> str:
        """Return the URL of the queue of raw records."""
        return self._text("QUEUE_URL")

    @property
    def dead_letter_queue_url(self) -> str:
        """Return the URL of the dead-letter queue of raw records."""
        return self._text("DEAD_LETTER_QUEUE_URL")

    @property
    def bucket(self) -> str:
        """Return the name of the bucket."""
        return self._text("BUCKET")

    @property
    def archive_bucket(self) -> str:
        """Return the name of the bucket of the archive."""
        return self._text("ARCHIVE_BUCKET")

    @property
    def archive_stream(self) -> str:
        """Return the name of the delivery stream into the archive; empty where objects are put directly."""
        return self._text("ARCHIVE_STREAM", "")

    @property
    def vault_bucket(self) -> str:
        """Return the name of the bucket of the anchors."""
        return self._text("VAULT_BUCKET")

    @property
    def entry_days(self) -> int:
        """Return how long a sealed entry stays in the table, in days; 0 is for ever."""
        return self._whole("ENTRY_DAYS", 0)

    @property
    def token_secret(self) -> str:
        """Return the ARN or name of the secret that page tokens are signed with."""
        return self._text("TOKEN_SECRET")

    @property
    def state_machine(self) -> str:
        """Return the ARN of the replacement state machine."""
        return self._text("STATE_MACHINE")

    @property
    def urgent_topic(self) -> str:
        """Return the ARN of the topic that wakes people."""
        return self._text("URGENT_TOPIC")

    @property
    def notice_topic(self) -> str:
        """Return the ARN of the topic that wakes nobody."""
        return self._text("NOTICE_TOPIC")

    @property
    def pages_an_hour(self) -> int:
        """Return how many pages about single nodes a cluster may have in a clock hour."""
        return self._whole("PAGES_AN_HOUR", 10)

    @property
    def reminder_hours(self) -> int:
        """Return after how many hours an urgent page is repeated."""
        return self._whole("REMINDER_HOURS", 4)

    @property
    def runbook_url(self) -> str:
        """Return where the runbooks are read; empty where no place was given."""
        return self._text("RUNBOOK_URL", " ").strip()

    @property
    def timeline_url(self) -> str:
        """Return where the record is read; empty where no place was given."""
        return self._text("TIMELINE_URL", " ").strip()

    @property
    def sender_proof(self) -> bool:
        """Tell whether a record counts only with a sender that may speak of its node."""
        return self._text("SENDER_PROOF", "required") != "off"

    @property
    def own_senders(self) -> frozenset[str]:
        """Return the role ids of our own functions that put records on the queue."""
        return frozenset(self._text("OWN_SENDERS", " ").split())

    @property
    def webhook_senders(self) -> str:
        """Return the name of the secret of those who may post; empty where nobody may."""
        return self._text("WEBHOOK_SENDERS", " ").strip()

    @property
    def events_queue(self) -> str:
        """Return the ARN of the queue of cloud events; empty where there is none."""
        return self._text("EVENTS_QUEUE", "-")

    @property
    def ingest_log_group(self) -> str:
        """Return the log group of the ingest function; unless told otherwise, the one that Lambda gives it."""
        return self._text("INGEST_LOG_GROUP", f"/aws/lambda/{self.stack}-ingest")

    @property
    def senders_log_group(self) -> str:
        """Return the log group of the senders' receipts."""
        return self._text("SENDERS_LOG_GROUP", f"/faultbridge/{self.stack}/senders")

    @property
    def output_prefix(self) -> str:
        """Return the key prefix of verification output, without a slash at its end."""
        return self._text("OUTPUT_PREFIX", "verify").rstrip("/")

    @property
    def probe_seconds(self) -> int:
        """Return the first pause between two looks at a slow operation."""
        return self._whole("PROBE_SECONDS", 30)

    @property
    def verify_level(self) -> int:
        """Return the level of the DCGM diagnostics."""
        return self._whole("VERIFY_LEVEL", 3)

    @property
    def verify_seconds(self) -> int:
        """Return how long a verification may run: 90 minutes, as level 4 takes, unless told otherwise."""
        return self._whole("VERIFY_SECONDS", 5400)

    @property
    def clock_offset_seconds(self) -> int:
        """Return how far the clock is moved, for tests of the embedded stack only; 0 everywhere else."""
        return self._whole("CLOCK_OFFSET_SECONDS", 0)

    def _text(self, name: str, default: str | None = None) -> str:
        value = self.variables.get(PREFIX + name) or default
        if value is None:
            raise Misconfigured(f"{PREFIX}{name} is not set ({MEANINGS[name]})")
        return value

    def _whole(self, name: str, default: int) -> int:
        text = self._text(name, str(default))
        try:
            return int(text)
        except ValueError:
            meaning = MEANINGS[name]
            raise Misconfigured(f"{PREFIX}{name} is {text!r}, not a whole number ({meaning})") from None
