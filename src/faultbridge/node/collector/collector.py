"""The collector of one Kubernetes cluster: follows nodes, their events and optionally pods."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from faultbridge.model.errors import FaultbridgeError
from faultbridge.model.log import log_cause
from faultbridge.model.retry import Retry
from faultbridge.node.agent.delivery.outbox import Outbox, Spool
from faultbridge.node.agent.delivery.sender import Sender, ServiceClock, Transport, send_until
from faultbridge.node.agent.delivery.transport import aws_transport
from faultbridge.node.agent.host import AgentClock
from faultbridge.node.agent.settings import AgentSettings
from faultbridge.node.collector.handlers import EventHandler, Handler, NodeHandler, RecordStore, SentStates
from faultbridge.node.collector.jobs import JobHandler
from faultbridge.record.ports.object_watch import ObjectKind, ObjectWatch, VersionExpired

BACKOFF = Retry(1, first_seconds=2.0, max_seconds=60.0)


@dataclass(slots=True)
class Follower:
    """Follows one kind of object until `stopping` is set.

    `version` is the resource version after which the next watch starts: the version of the last list or change that the
    handler received. A lost connection therefore loses no change. If the API no longer has all changes after this
    version (HTTP status 410), all objects are listed again. `follow` sets `listed` after the first complete list.
    `backoff` determines the pauses after failures.
    """

    kind: ObjectKind
    watch: ObjectWatch
    handler: Handler
    stopping: threading.Event
    backoff: Retry = BACKOFF
    wait: Callable[[float], object] | None = None
    version: str | None = None
    listed: threading.Event = field(default_factory=threading.Event)
    _failures: int = 0

    def run(self) -> None:
        """List and watch until `stopping` is set; after a FaultbridgeError, log and retry after a pause."""
        while not self.stopping.is_set():
            try:
                self.follow()
            except FaultbridgeError as error:
                self._pause_after(error)

    def follow(self) -> None:
        """List the objects if no version is stored, then pass changes to the handler until the watch ends."""
        if self.version is None:
            self.version = self.list_all()
            self.listed.set()
        for change in self.watch.changes(self.kind, self.version):
            if self.stopping.is_set():
                return
            if change.object is not None and change.deleted:
                self.handler.remove(change.object)
            elif change.object is not None:
                self.handler.handle(change.object)
            self.version, self._failures = change.version, 0

    def list_all(self) -> str:
        """Pass all objects to the handler; return the resource version after which a watch continues."""
        self.handler.begin_list()
        version = ""
        for page in self.watch.pages(self.kind):
            for found in page.objects:
                self.handler.handle(found)
            version = page.version
        self.handler.end_list()
        return version

    def _pause_after(self, error: FaultbridgeError) -> None:
        self._failures += 1
        if isinstance(error, VersionExpired):
            self.version = None
        pause = self.backoff.pause_after(self._failures)
        decision = "list_again" if self.version is None else "watch_again"
        log_cause(decision, reason=str(error), level=logging.WARNING, kind=self.kind, seconds=round(pause, 1))
        (self.wait or self.stopping.wait)(pause)


SHUTDOWN_SECONDS = 10.0


@dataclass(slots=True)
class Collector:
    """Sends records about nodes, node events and optionally pods; each kind is followed by a thread."""

    followers: tuple[Follower, ...]
    sender: Sender
    clock: AgentClock
    stopping: threading.Event = field(default_factory=threading.Event)
    _error: Exception | None = None
    _logged_error: str = ""

    def run(self) -> None:
        """Run until `stopping` is set, then send for at most 10 seconds; raises a follower's error."""
        for follower in self.followers:
            threading.Thread(target=self._follow, args=(follower,), daemon=True, name=follower.kind.value).start()
        self.sender.run(self.stopping, after_each=self._log_failure)
        self._send_all(SHUTDOWN_SECONDS)
        log_cause("collector_stopped", reason=str(self._error or "a signal"), waiting=self.sender.outbox.waiting)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop the collector, so that `run` ends. A signal handler may call this method."""
        self.stopping.set()
        self.sender.outbox.new_records.set()

    def run_once(self, seconds: float) -> str | None:
        """List all objects once, and send their records; returns why some could not be sent, or None."""
        for follower in self.followers:
            follower.list_all()
        return self._send_all(seconds)

    def _send_all(self, seconds: float) -> str | None:
        return send_until(self.clock.monotonic() + seconds, self.sender)

    def _follow(self, follower: Follower) -> None:
        # A failed follower must end the process: the supervisor restarts the process, not one thread.
        try:
            follower.run()
        except Exception as error:  # noqa: BLE001 - raised again by `run` in the main thread
            self._error = error
            self.stop()

    def _log_failure(self) -> None:
        error = self.sender.last_error
        if error and error != self._logged_error:
            waiting = self.sender.outbox.waiting
            log_cause("records_not_sent", reason=error, level=logging.WARNING, waiting=waiting)
        self._logged_error = error


def build_collector(
    settings: AgentSettings,
    watch: ObjectWatch,
    transport: Transport | None = None,
    clock: AgentClock | None = None,
    *,
    jobs: bool = False,
) -> Collector:
    """Build the collector of one cluster, by default with AWS and the system clock; `jobs` follows pods.

    Of the agent's settings it uses the cluster, queue, bucket, Region, and the folder and size of the spool.
    """
    clock = clock or AgentClock()
    transport = transport or aws_transport(settings, ServiceClock(clock), _log_credentials)
    outbox = Outbox(Spool(settings.spool / "spool", settings.spool_bytes))
    store = RecordStore(settings.cluster, settings.bucket is not None, outbox, clock)
    stopping = threading.Event()
    followers: tuple[Follower, ...] = (
        Follower(ObjectKind.NODE, watch, NodeHandler(store, SentStates(clock.monotonic)), stopping),
        Follower(ObjectKind.NODE_EVENT, watch, EventHandler(store), stopping),
    )
    if jobs:
        followers += (Follower(ObjectKind.POD, watch, JobHandler(store), stopping),)
    return Collector(followers, Sender(outbox, transport, clock, None), clock, stopping)


def _log_credentials(reason: str) -> None:
    log_cause("credentials_not_refreshed", reason=reason, level=logging.WARNING)
