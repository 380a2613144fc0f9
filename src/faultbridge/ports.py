"""What the services need from the world, as protocols; `adapters/` fulfils them on AWS, `tests/fakes` in memory.

Every call may raise `Transient` (try again later) or `Misconfigured` (a person must mend it) and nothing else
that comes from the other side, unless its docstring says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from faultbridge.storage.writes import Index, Item, Key, Page, Write


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """Return the present instant, aware, UTC."""
        ...


class Table(Protocol):
    """The one table: consistent reads by key and conditional writes, all or nothing."""

    def get(self, key: Key) -> Item | None:
        """Read one item, consistently."""
        ...

    def get_many(self, keys: Iterable[Key]) -> dict[Key, Item]:
        """Read any number of items, consistently; missing ones are not in the answer."""
        ...

    def query(
        self,
        pk: str,
        *,
        prefix: str = "",
        after: str | None = None,
        upto: str | None = None,
        limit: int | None = None,
        start: str | None = None,
        index: Index | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Read items of one partition in sort-key order, of the table (consistently) or of an index (eventually).

        `prefix`, `after` (exclusive) and `upto` (inclusive) bound the sort key together; `start` is an earlier
        page's `next`. A page without `next` is the last one; one with it may be followed by an empty one.
        """
        ...

    def write(self, write: Write) -> None:
        """Make one conditional write; raises Conflict when its condition does not hold."""
        ...

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Make up to 100 writes, all or nothing; raises Conflict when a condition fails or another writer interferes.

        The same token with the same writes within ten minutes is answered like the first time.
        """
        ...


@dataclass(frozen=True, slots=True)
class BusEvent:
    """One event as the bus takes it: `detail` is the exact JSON text."""

    event_id: str
    detail_type: str
    detail: str
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event that the bus did not take; `permanent` when no repetition will help."""

    event_id: str
    reason: str
    permanent: bool


class EventBus(Protocol):
    """Where entries go to be seen by customers."""

    def put(self, events: Sequence[BusEvent]) -> tuple[Refusal, ...]:
        """Send the events in as few calls as the limits allow; what is not in the answer was taken."""
        ...


@dataclass(frozen=True, slots=True)
class RecordQueueDepth:
    """How many messages wait, are being worked on, and are dead."""

    waiting: int
    in_flight: int
    dead: int


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """One message in hand; it comes back by itself unless it is deleted in time."""

    body: str
    group: str
    handle: str
    sent_at: datetime
    receive_count: int


class RecordQueue(Protocol):
    """The queue of raw records, or that of its dead letters."""

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Send (group, body) pairs; returns the bodies that were not accepted."""
        ...

    def depth(self) -> RecordQueueDepth:
        """Read how many messages there are, approximately."""
        ...

    def receive(self) -> tuple[ReceivedMessage, ...]:
        """Take up to ten messages."""
        ...

    def delete(self, message: ReceivedMessage) -> None:
        """Take a received message off the queue for good."""
        ...


class ObjectStore(Protocol):
    """Raw records and evidence, kept under the hash of their content."""

    def put(self, key: str, body: bytes) -> None:
        """Keep the bytes; the same key again is the same content again."""
        ...

    def get(self, key: str) -> bytes | None:
        """Read the bytes back, or None where nothing is kept."""
        ...


class ExecutionStatus(StrEnum):
    """What the workflow engine says of one execution."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    MISSING = "missing"


class Workflow(Protocol):
    """The engine that drives one attempt through its steps."""

    def start(self, name: str, payload: Mapping[str, Any]) -> None:
        """Start an execution under this name; one that exists already counts as started."""
        ...

    def status(self, name: str) -> ExecutionStatus:
        """Tell how the execution of this name is doing."""
        ...

    def resume(self, token: str, output: Mapping[str, Any]) -> bool:
        """Wake the execution that waits with this token; False when nobody waits for it any more."""
        ...


class PageUrgency(StrEnum):
    """Whether a person must act now (`urgent`) or may read it later (`notice`)."""

    URGENT = "urgent"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class PageMessage:
    """One page: a subject of at most 100 ASCII characters, bodies by protocol, attributes for filter policies."""

    key: str
    urgency: PageUrgency
    subject: str
    bodies: Mapping[str, str]
    attributes: Mapping[str, str]


class Pager(Protocol):
    """Reaches people."""

    def send(self, page: PageMessage) -> str:
        """Publish the page and return the service's message id."""
        ...


class ProviderFailure(StrEnum):
    """Why a provider, orchestrator or verifier did not do what it was asked."""

    CAPACITY = "CAPACITY"
    THROTTLED = "THROTTLED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    CONFLICT = "CONFLICT"
    TIMEOUT = "TIMEOUT"
    AMBIGUOUS = "AMBIGUOUS"
    VERIFY_FAILED = "VERIFY_FAILED"
    PROVIDER_ERROR = "PROVIDER_ERROR"

    @property
    def retriable(self) -> bool:
        """Tell whether the same call may succeed later without anybody mending anything."""
        return self in _RETRIABLE


_RETRIABLE = frozenset(
    {
        ProviderFailure.CAPACITY,
        ProviderFailure.THROTTLED,
        ProviderFailure.CONFLICT,
        ProviderFailure.TIMEOUT,
        ProviderFailure.AMBIGUOUS,
    }
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call: `ok`, or the failure and the provider's words; `operation` is the provider's own id."""

    failure: ProviderFailure | None = None
    reason: str = ""
    operation: str | None = None

    @property
    def ok(self) -> bool:
        """Tell whether it was done."""
        return self.failure is None


class Presence(StrEnum):
    """What a probe found of an instance."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instance that may take a seat: running, same group, launched after the intent."""

    instance_id: str
    launched_at: datetime
    instance_type: str | None = None
    private_dns: str | None = None
    running: bool = True


class Provider(Protocol):
    """What replaces an instance. Calls name the instance id of the committed intent, never a host name."""

    def replace(self, instance_id: str, token: str) -> Answer:
        """Give the instance up so that its group launches a successor; repeating it is harmless."""
        ...

    def probe(self, instance_id: str) -> Presence:
        """Tell whether the instance is still there."""
        ...

    def candidates(self, group: str, launched_after: datetime) -> tuple[Candidate, ...]:
        """List the instances of the group that were launched after an instant, oldest first."""
        ...


class Orchestrator(Protocol):
    """What keeps work off a node and takes it away. `applicable` is False where a cluster has none."""

    @property
    def applicable(self) -> bool:
        """Tell whether there is anything to cordon."""
        ...

    def cordon(self, node: str) -> Answer:
        """Keep new work off the node; repeating it is harmless."""
        ...

    def uncordon(self, node: str) -> Answer:
        """Let work on the node again; repeating it is harmless."""
        ...

    def drain(self, node: str, deadline: datetime) -> Answer:
        """Ask running work to leave; ok once none is left."""
        ...


class Verdict(StrEnum):
    """What a verification came to; `unknown` is not `failed`."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verification:
    """One look at a running verification: the verdict, one line a failed test, and the raw report."""

    verdict: Verdict
    findings: tuple[str, ...] = ()
    report: bytes = b""


class Verifier(Protocol):
    """What proves a node good."""

    def begin(self, instance_id: str, token: str) -> str:
        """Start a verification and return its operation id."""
        ...

    def look(self, instance_id: str, operation: str) -> Verification:
        """Read how the verification stands."""
        ...


class Receipts(Protocol):
    """The log of what was sent and what came of it, one line a batch, for `account`."""

    def write(self, line: Mapping[str, Any]) -> None:
        """Append one line."""
        ...

    def read(self, since: datetime) -> Iterator[Mapping[str, Any]]:
        """Read every line written at or after an instant, senders' and ingest's alike."""
        ...


class Ports(Protocol):
    """All of the world at once: what the services are put together from."""

    @property
    def clock(self) -> Clock:
        """Tell the time."""
        ...

    @property
    def table(self) -> Table:
        """Reach the one table."""
        ...

    @property
    def bus(self) -> EventBus:
        """Reach the bus."""
        ...

    @property
    def queue(self) -> RecordQueue:
        """Reach the queue of raw records."""
        ...

    @property
    def objects(self) -> ObjectStore:
        """Reach the store of raw records and evidence."""
        ...

    @property
    def workflow(self) -> Workflow:
        """Reach the engine that drives attempts."""
        ...

    @property
    def pager(self) -> Pager:
        """Reach people."""
        ...

    @property
    def providers(self) -> Mapping[str, Provider]:
        """Reach what replaces instances, by the name that a cluster's registration gives."""
        ...

    @property
    def orchestrators(self) -> Mapping[str, Orchestrator]:
        """Reach what cordons and drains, by name."""
        ...

    @property
    def verifiers(self) -> Mapping[str, Verifier]:
        """Reach what proves a node good, by name."""
        ...
