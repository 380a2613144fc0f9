"""The steps of the demo: register four nodes, send ten records, follow one repair."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.cli.commands.embedded.demo_records import DemoRecord, demo_records
from faultbridge.cli.commands.embedded.demo_result import DemoResult
from faultbridge.cli.commands.records.send import sender
from faultbridge.cli.render.columns import ENTRIES, entry_document
from faultbridge.cli.render.live_output import LiveTable
from faultbridge.cli.render.output import OutputFormat, notice, print_line
from faultbridge.cli.stack.locate import Target, use_environment
from faultbridge.cli.stack.session import Session
from faultbridge.domain.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.domain.edges import CaseStatus
from faultbridge.ingest.delivery_audit import audit_deliveries
from faultbridge.ledger.follow import follow
from faultbridge.ledger.timeline import Line, TimelineQuery
from faultbridge.local.subscriptions import QueueSubscription, subscribe_to_events, subscribe_to_pages
from faultbridge.registry.registration import NewNode

NODES = 4
POLL_SECONDS = 0.3
DELIVERY_TIMEOUT_SECONDS = 15.0
EXPECTED_PAGES = 2
FINAL_STATUSES = tuple(status for status in CaseStatus if not status.live)


@dataclass(slots=True)
class DemoScenario:
    """One run of the demo on a running stack, with a cluster and a fleet of its own.

    `timeout` is the maximum wait for the repair, in seconds.
    """

    session: Session
    environment: Mapping[str, str]
    outputs: Mapping[str, str]
    timeout: float
    cluster: str
    started: float
    console: str

    @classmethod
    def start(cls, *, stack: str, fresh: bool, timeout: float, output: OutputFormat) -> DemoScenario:
        """Start the embedded stack, and return a scenario for a new cluster in it."""
        from faultbridge.local import up

        started = time.monotonic()
        info = up(fresh, notice, stack=stack)
        use_environment(info.environment)
        session = Session(Target(stack), output, embedded=True)
        cluster = f"demo-{session.now():%Y%m%d-%H%M%S}"
        return cls(session, info.environment, info.outputs, timeout, cluster, started, info.console)

    def run(self) -> DemoResult:
        """Run all steps of the demo, and return the result."""
        # Subscribe first: a running stack publishes the first entries faster than a queue is created.
        events = subscribe_to_events(self.environment, self.outputs, self.cluster)
        pages = subscribe_to_pages(self.environment, self.outputs, self.cluster)
        nodes = self._register()
        since = self.session.now()
        records = demo_records(self.cluster, nodes, since)
        sent = self._send(records)
        sent_at = time.monotonic()
        lines = self._follow(sent, since)
        took = time.monotonic() - sent_at
        result = self._result(records, lines, events, pages, since, took)
        events.remove()
        pages.remove()
        return result

    def _register(self) -> list[str]:
        from faultbridge.adapters.compute.ec2_inventory import Ec2Inventory
        from faultbridge.local import create_fleet

        print_step(f"creating {NODES} fake GPU instances and registering them as cluster {self.cluster}")
        create_fleet(self.cluster, NODES, stack=self.session.target.stack, environment=self.environment)
        registration = self.session.application.registry.registration
        registration.add_cluster(ClusterConfig(self.cluster, mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE))
        instances = Ec2Inventory(self.session.clients).serving_instances(ClusterConfig(self.cluster), self.cluster)
        for instance in instances:
            registration.add_node(self.cluster, NewNode.of_instance(instance))
        return [instance.name for instance in instances]

    def _send(self, records: Sequence[DemoRecord]) -> int:
        print_step(f"sending {len(records)} records:")
        for record in records:
            print_step(f"  {record.raw_input.source:<20}{record.raw_input.node:<20}{record.description}")
        return len(sender(self.session)(record.raw_input for record in records).accepted)

    def _follow(self, sent: int, since: datetime) -> list[Line]:
        print_step("timeline (a scheduled minute takes 3 s in this demo):")
        table = LiveTable(ENTRIES, widths=(14, 22, 58))
        lines: list[Line] = []
        wanted = TimelineQuery(self.cluster)
        for line in follow(
            self.session.timeline, wanted, self.session.ports.clock, self._poll_until_complete(sent, since)
        ):
            lines.append(line)
            if self.session.prints_table:
                table.add(entry_document(line))
        return lines

    def _poll_until_complete(self, sent: int, since: datetime) -> Callable[[], bool]:
        """Return a function that sleeps until the next poll, and returns whether to poll again."""
        deadline = time.monotonic() + self.timeout

        def wait() -> bool:
            time.sleep(POLL_SECONDS)
            return time.monotonic() < deadline and not self._is_complete(sent, since)

        return wait

    def _is_complete(self, sent: int, since: datetime) -> bool:
        """Return whether a case was closed and none is live, all nodes serve, and every record has an outcome."""
        directory = self.session.directory
        if directory.cases(self.cluster) or not directory.cases(self.cluster, FINAL_STATUSES):
            return False
        counts = directory.cluster(self.cluster).state.counts
        if sum(counts.values()) != counts.get("healthy", 0) + counts.get("degraded", 0):
            return False
        audit = audit_deliveries(self.session.receipts, since)
        return audit.complete and audit.sent >= sent

    def _result(
        self,
        records: Sequence[DemoRecord],
        lines: Sequence[Line],
        events: QueueSubscription,
        pages: QueueSubscription,
        since: datetime,
        took: float,
    ) -> DemoResult:
        session, directory = self.session, self.session.directory
        verified = session.verify(self.cluster)
        return DemoResult(
            cluster=self.cluster,
            records=len(records),
            audit=audit_deliveries(session.receipts, since),
            verified=verified,
            entries=len(lines),
            events=events.collect(lambda found: len(_ids(found)) >= verified.entries, DELIVERY_TIMEOUT_SECONDS),
            pages=pages.collect(lambda found: len(found) >= EXPECTED_PAGES, DELIVERY_TIMEOUT_SECONDS),
            cases=[*directory.cases(self.cluster), *directory.cases(self.cluster, FINAL_STATUSES)],
            nodes=directory.nodes(self.cluster),
            repaired_in=took,
            ran_for=time.monotonic() - self.started,
            console=self.console,
        )


def print_step(text: str) -> None:
    """Print a step of the demo on stderr. The timeline and the result are printed on stdout."""
    print_line(text, to_stderr=True, flush=True)


def _ids(events: Sequence[Mapping[str, Any]]) -> set[str]:
    return {str(event["metadata"]["event_id"]) for event in events}
