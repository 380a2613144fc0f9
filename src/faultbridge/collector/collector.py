"""The collector of one Kubernetes cluster: follows nodes, their events and optionally pods."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field

from faultbridge.agent.delivery.final_send import send_until
from faultbridge.agent.delivery.outbox import Outbox
from faultbridge.agent.delivery.sender import Sender
from faultbridge.agent.delivery.service_clock import ServiceClock
from faultbridge.agent.delivery.spool import Spool
from faultbridge.agent.delivery.transport import aws_transport
from faultbridge.agent.delivery.transport_contract import Transport
from faultbridge.agent.host import AgentClock, SystemClock
from faultbridge.agent.settings import AgentSettings
from faultbridge.collector.follower import Follower
from faultbridge.collector.handlers import EventHandler, NodeHandler, RecordStore
from faultbridge.collector.job_handler import JobHandler
from faultbridge.collector.sent_states import SentStates
from faultbridge.log import log_cause
from faultbridge.ports import ObjectKind, ObjectWatch

SHUTDOWN_SECONDS = 10.0


@dataclass(slots=True)
class Collector:
    """Sends records about the nodes, node events and optionally pods of one Kubernetes cluster.

    One thread for each kind of object follows the objects and stores the records. The thread that calls `run` sends the
    records.
    """

    followers: tuple[Follower, ...]
    sender: Sender
    clock: AgentClock
    stopping: threading.Event = field(default_factory=threading.Event)
    _error: Exception | None = None
    _logged_error: str = ""

    def run(self) -> None:
        """Run until `stopping` is set, then send the stored records for at most about 10 seconds.

        If an error ended a follower, this error is raised at the end.
        """
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
        """List all objects once, then send their records for at most about `seconds`.

        Returns why records could not be sent, or None if all records were sent.
        """
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
    """Build the collector of one cluster, which reads Kubernetes objects from `watch` and sends records.

    - `settings`: agent settings, of which the collector uses only the cluster, queue, bucket, region, and folder and
      size of the spool
    - `transport`: where the collector sends records; None means AWS
    - `clock`: None means the system clock
    - `jobs`: whether the collector also follows pods, and reports the training jobs that they belong to
    """
    clock = clock or SystemClock()
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
