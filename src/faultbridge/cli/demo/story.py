"""The demo's story: a cluster of four nodes, ten records, one repair."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.cli.demo.records import DemoRecord, demo_records
from faultbridge.cli.demo.result import Result
from faultbridge.cli.documents import ENTRIES, entry_document
from faultbridge.cli.live import LiveTable
from faultbridge.cli.output import Form, notice
from faultbridge.cli.send import sender
from faultbridge.cli.session import Session, Target
from faultbridge.cli.stacks import aim
from faultbridge.domain.clusters import ClusterConfig, Mode, RepairOwner
from faultbridge.domain.edges import CaseStatus
from faultbridge.ingest.delivery_audit import account
from faultbridge.ledger.timeline import Line, Wanted, follow
from faultbridge.local.taps import Tap, tap_events, tap_pages
from faultbridge.registry.registration import NewNode

NODES = 4
PAUSE_SECONDS = 0.3
SETTLING_SECONDS = 15.0
FINAL = tuple(status for status in CaseStatus if not status.live)


@dataclass(slots=True)
class Story:
    """One run of the demo on a stack that is up; it has a cluster and a fleet of its own."""

    session: Session
    environment: Mapping[str, str]
    outputs: Mapping[str, str]
    patience: float
    cluster: str
    started: float

    @classmethod
    def begin(cls, *, stack: str, fresh: bool, patience: float, form: Form) -> Story:
        """Bring the stack up."""
        from faultbridge.local import up

        started = time.monotonic()
        info = up(fresh, notice, stack=stack)
        aim(info.environment)
        session = Session(Target(stack), form, embedded=True)
        return cls(session, info.environment, info.outputs, patience, f"demo-{session.now():%H%M%S}", started)

    def tell(self) -> Result:
        """Run the story and say what came of it."""
        # Before anything is registered: a warm stack publishes the first entries faster than a queue is made.
        events = tap_events(self.environment, self.outputs, self.cluster)
        pages = tap_pages(self.environment, self.outputs, self.cluster)
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
        from faultbridge.adapters.inventory_ec2 import Ec2Inventory
        from faultbridge.local import create_fleet

        say(f"making {NODES} GPU instances (fakes) and registering them as cluster {self.cluster}")
        create_fleet(self.cluster, NODES, stack=self.session.target.stack, environment=self.environment)
        registration = self.session.application.registration
        registration.add_cluster(ClusterConfig(self.cluster, mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE))
        machines = Ec2Inventory(self.session.clients).machines(ClusterConfig(self.cluster), self.cluster)
        for machine in machines:
            registration.add_node(self.cluster, NewNode.of_machine(machine))
        return [machine.name for machine in machines]

    def _send(self, records: Sequence[DemoRecord]) -> int:
        say(f"sending {len(records)} records:")
        for record in records:
            say(f"  {record.parcel.source:<20}{record.parcel.node:<20}{record.says}")
        return len(sender(self.session)(record.parcel for record in records).accepted)

    def _follow(self, sent: int, since: datetime) -> list[Line]:
        say("the timeline as it grows (a scheduled minute lasts 3 s here):")
        table = LiveTable(ENTRIES, widths=(14, 18, 58))
        lines: list[Line] = []
        wanted = Wanted(self.cluster)
        for line in follow(self.session.timeline, wanted, self.session.ports.clock, self._waiting(sent, since)):
            lines.append(line)
            if self.session.for_people:
                table.add(entry_document(line))
        return lines

    def _waiting(self, sent: int, since: datetime) -> Callable[[], bool]:
        """Wait until the case is closed, the cluster says that all is well, and every record is accounted for."""
        until = time.monotonic() + self.patience

        def wait() -> bool:
            time.sleep(PAUSE_SECONDS)
            return time.monotonic() < until and not self._over(sent, since)

        return wait

    def _over(self, sent: int, since: datetime) -> bool:
        directory = self.session.directory
        if directory.cases(self.cluster) or not directory.cases(self.cluster, FINAL):
            return False
        counts = directory.cluster(self.cluster).state.counts
        if sum(counts.values()) != counts.get("healthy", 0) + counts.get("degraded", 0):
            return False
        found = account(self.session.receipts, since)
        return found.complete and found.sent >= sent

    def _result(
        self,
        records: Sequence[DemoRecord],
        lines: Sequence[Line],
        events: Tap,
        pages: Tap,
        since: datetime,
        took: float,
    ) -> Result:
        verified = self.session.verify(self.cluster)
        cases = [*self.session.directory.cases(self.cluster), *self.session.directory.cases(self.cluster, FINAL)]
        return Result(
            cluster=self.cluster,
            records=len(records),
            accounted=account(self.session.receipts, since),
            verified=verified,
            entries=len(lines),
            events=events.collect(lambda found: len(_ids(found)) >= verified.entries, SETTLING_SECONDS),
            pages=pages.collect(lambda found: len(found) >= _EXPECTED_PAGES, SETTLING_SECONDS),
            cases=cases,
            nodes=self.session.directory.nodes(self.cluster),
            repaired_in=took,
            ran_for=time.monotonic() - self.started,
        )


_EXPECTED_PAGES = 2


def say(text: str) -> None:
    """Tell the person who watches what happens next; the result alone goes to standard output."""
    print(text, file=sys.stderr, flush=True)


def _ids(events: Sequence[Mapping[str, Any]]) -> set[str]:
    return {str(event["metadata"]["event_id"]) for event in events}
