"""What a deployment tells the code, read once from `FAULTBRIDGE_*` variables."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.variables import Variables


@dataclass(frozen=True, slots=True)
class Settings(Variables):
    """The settings of one deployment, each read when it is asked for."""

    @property
    def stack(self) -> str:
        """Return the name of the stack."""
        return self.text("STACK", "faultbridge")

    @property
    def repair_tag(self) -> str:
        """Return the value of the tag `faultbridge:stack` on what the stack may act on."""
        return self.text("REPAIR_TAG", " ").strip() or self.stack

    @property
    def stack_id(self) -> str:
        """Return the id from which event ids are derived; it outlives a restore."""
        return self.text("STACK_ID")

    @property
    def table(self) -> str:
        """Return the name of the table."""
        return self.text("TABLE")

    @property
    def bus(self) -> str:
        """Return the name or ARN of the bus."""
        return self.text("BUS")

    @property
    def event_source(self) -> str:
        """Return the `source` of every event."""
        return self.text("EVENT_SOURCE", "faultbridge")

    @property
    def queue_url(self) -> str:
        """Return the URL of the queue of raw records."""
        return self.text("QUEUE_URL")

    @property
    def dead_letter_queue_url(self) -> str:
        """Return the URL of the dead-letter queue of raw records."""
        return self.text("DEAD_LETTER_QUEUE_URL")

    @property
    def events_queue_url(self) -> str:
        """Return the URL of the queue of cloud events; empty for a stack that is older than its name."""
        return self.text("EVENTS_QUEUE_URL", " ").strip()

    @property
    def events_dead_letter_queue_url(self) -> str:
        """Return the URL of the dead-letter queue of cloud events; empty for a stack that is older than it."""
        return self.text("EVENTS_DEAD_LETTER_QUEUE_URL", " ").strip()

    @property
    def bucket(self) -> str:
        """Return the name of the bucket."""
        return self.text("BUCKET")

    @property
    def archive_bucket(self) -> str:
        """Return the name of the bucket of the archive."""
        return self.text("ARCHIVE_BUCKET")

    @property
    def archive_stream(self) -> str:
        """Return the name of the delivery stream into the archive; empty where objects are put directly."""
        return self.text("ARCHIVE_STREAM", "")

    @property
    def vault_bucket(self) -> str:
        """Return the name of the bucket of the anchors."""
        return self.text("VAULT_BUCKET")

    @property
    def entry_days(self) -> int:
        """Return how long a sealed entry stays in the table, in days; 0 is for ever."""
        return self.whole("ENTRY_DAYS", 0)

    @property
    def token_secret(self) -> str:
        """Return the ARN or name of the secret that page tokens are signed with."""
        return self.text("TOKEN_SECRET")

    @property
    def state_machine(self) -> str:
        """Return the ARN of the replacement state machine."""
        return self.text("STATE_MACHINE")

    @property
    def urgent_topic(self) -> str:
        """Return the ARN of the topic that wakes people."""
        return self.text("URGENT_TOPIC")

    @property
    def notice_topic(self) -> str:
        """Return the ARN of the topic that wakes nobody."""
        return self.text("NOTICE_TOPIC")

    @property
    def max_pages_per_hour(self) -> int:
        """Return how many pages about single nodes a cluster may have in a clock hour."""
        return self.whole("MAX_PAGES_PER_HOUR", 10)

    @property
    def reminder_hours(self) -> int:
        """Return after how many hours an urgent page is repeated."""
        return self.whole("REMINDER_HOURS", 4)

    @property
    def runbook_url(self) -> str:
        """Return where the runbooks are read; empty where no place was given."""
        return self.text("RUNBOOK_URL", " ").strip()

    @property
    def timeline_url(self) -> str:
        """Return where the record is read; empty where no place was given."""
        return self.text("TIMELINE_URL", " ").strip()

    @property
    def pagerduty_topic(self) -> str:
        """Return the ARN of the topic for PagerDuty's integration behind SNS; empty where there is none."""
        return self.text("PAGERDUTY_TOPIC", " ").strip()

    @property
    def chat_topic(self) -> str:
        """Return the ARN of the topic for Amazon Q Developer in chat applications; empty where there is none."""
        return self.text("CHAT_TOPIC", " ").strip()

    @property
    def pagerduty(self) -> str:
        """Return how PagerDuty's Events API is reached: `bus`, an https URL, or empty for not at all."""
        return self.text("PAGERDUTY", " ").strip()

    @property
    def pagerduty_key(self) -> str:
        """Return the name or ARN of the secret with the routing key, for an https URL."""
        return self.text("PAGERDUTY_KEY")

    @property
    def hyperpod_mirror(self) -> frozenset[str]:
        """Return the clusters whose events are copied in the shape of SageMaker HyperPod's; none unless told."""
        return frozenset(self.text("HYPERPOD_MIRROR", " ").split())

    @property
    def sender_proof(self) -> bool:
        """Tell whether a record counts only with a sender that may speak of its node."""
        return self.text("SENDER_PROOF", "required") != "off"

    @property
    def own_senders(self) -> frozenset[str]:
        """Return the role ids of our own functions that put records on the queue."""
        return frozenset(self.text("OWN_SENDERS", " ").split())

    @property
    def webhook_senders(self) -> str:
        """Return the name of the secret of those who may post; empty where nobody may."""
        return self.text("WEBHOOK_SENDERS", " ").strip()

    @property
    def events_queue(self) -> str:
        """Return the ARN of the queue of cloud events; empty where there is none."""
        return self.text("EVENTS_QUEUE", "-")

    @property
    def ingest_log_group(self) -> str:
        """Return the log group of the ingest function; unless told otherwise, the one that Lambda gives it."""
        return self.text("INGEST_LOG_GROUP", f"/aws/lambda/{self.stack}-ingest")

    @property
    def senders_log_group(self) -> str:
        """Return the log group of the senders' receipts."""
        return self.text("SENDERS_LOG_GROUP", f"/faultbridge/{self.stack}/senders")

    @property
    def output_prefix(self) -> str:
        """Return the key prefix of verification output, without a slash at its end."""
        return self.text("OUTPUT_PREFIX", "verify").rstrip("/")

    @property
    def probe_seconds(self) -> int:
        """Return the first pause between two looks at a slow operation."""
        return self.whole("PROBE_SECONDS", 30)

    @property
    def verify_level(self) -> int:
        """Return the level of the DCGM diagnostics."""
        return self.whole("VERIFY_LEVEL", 3)

    @property
    def verify_seconds(self) -> int:
        """Return how long a verification may run: 90 minutes, as level 4 takes, unless told otherwise."""
        return self.whole("VERIFY_SECONDS", 5400)

    @property
    def clock_offset_seconds(self) -> int:
        """Return how far the clock is moved, for tests of the embedded stack only; 0 everywhere else."""
        return self.whole("CLOCK_OFFSET_SECONDS", 0)
