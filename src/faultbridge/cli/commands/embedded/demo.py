"""`faultbridge demo`: shows on this machine how Faultbridge repairs a node with a lost GPU."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any

from faultbridge import local
from faultbridge.cli.commands.embedded.stack import YesOption, confirm_deletion
from faultbridge.cli.commands.options import Format, StackName
from faultbridge.cli.commands.records.send import sender
from faultbridge.cli.declare import EXIT_NOT_WELL, Exit, Option, command
from faultbridge.cli.render.columns import ENTRIES, entry_document
from faultbridge.cli.render.output import Columns, LiveTable, OutputFormat, fields, notice, print_line, show_one
from faultbridge.cli.stack.locate import DEFAULT_STACK, Target, use_environment
from faultbridge.cli.stack.session import Session
from faultbridge.decode.data import FOLDER
from faultbridge.local.clients import subscribe_to_events, subscribe_to_pages
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import CaseStatus, Resolution
from faultbridge.model.nodes import NodeState
from faultbridge.model.times import to_text
from faultbridge.record.entry_text import duration_text
from faultbridge.record.timeline import TimelineQuery, follow
from faultbridge.record.verify import Verified
from faultbridge.repair.registry.registration import NewNode
from faultbridge.repair.registry.views import CaseView
from faultbridge.serve.ingest.send import DeliveryAudit, RawInput, audit_deliveries
from faultbridge.serve.wiring.services import wire_registration


@command("demo", "", "--fresh --json")
def run_demo(
    fresh: Annotated[bool, Option(help="Delete all data of the stack first.")] = False,
    stack: StackName = DEFAULT_STACK,
    timeout: Annotated[int, Option("--patience SECONDS", "Maximum wait for the repair.", min=1)] = 120,
    yes: YesOption = False,
    *,
    output: Format,
) -> None:
    """Start the embedded stack, send bundled faults, and follow the repair until a verified node serves.

    The instances and the AWS services are emulated; Faultbridge runs as on AWS. Exit code 1: a check failed.
    """
    if fresh:
        confirm_deletion(stack, yes=yes)
    result = play(stack, fresh=fresh, timeout=timeout, output=output)
    if output.for_people:
        print_line()
        show_one(result.document(), TABLE, OutputFormat.TABLE)
    else:
        print_line(json.dumps(result.document(), indent=2 if output is OutputFormat.JSON else None))
    if result.problems:
        notice(f"the demo failed: {'; '.join(result.problems)}")
        raise Exit(EXIT_NOT_WELL)


BUNDLE = FOLDER / "demo"
UNREGISTERED_NODE = "ip-192-0-2-99"
_TIME_OFFSET = re.compile(r"@(dmesg)?(-\d+\.\d)@")
"""Placeholder for a time: seconds relative to now; with `dmesg`, as `dmesg --time-format iso` writes it."""


@dataclass(frozen=True, slots=True)
class DemoRecord:
    """One raw record of the demo, with a short description."""

    raw_input: RawInput
    description: str


def demo_records(cluster: str, nodes: Sequence[str], now: datetime) -> list[DemoRecord]:
    """Assign the bundled records to nodes; a record without a node gets the name of an unregistered one."""
    rows = json.loads((BUNDLE / "index.json").read_bytes())
    return [
        DemoRecord(RawInput(row["source"], cluster, _body(row["file"], node, now), node=node), row["says"])
        for row in rows
        for node in [UNREGISTERED_NODE if row["node"] is None else nodes[row["node"]]]
    ]


def _body(file: str, node: str, now: datetime) -> bytes:
    text = (BUNDLE / file).read_text(encoding="utf-8").replace("@node@", node)

    def time(found: re.Match[str]) -> str:
        at = to_text(now + timedelta(seconds=float(found[2])))
        return f"{at.removesuffix('Z').replace('.', ',')}000+00:00" if found[1] else at

    return _TIME_OFFSET.sub(time, text).encode()


TABLE: Columns = fields(
    "Cluster, Records sent=records, Outcomes, Entries, Events on the bus=events, Pages, Case, Old instance, "
    "New instance, Phases, Console, Record verified, Repaired in, Total time"
) | {
    "Outcomes": lambda one: ", ".join(f"{count} {name}" for name, count in one["outcomes"].items() if count),
    "Pages": lambda one: "\n".join(page["subject"] for page in one["pages"]) or "none",
    "Case": lambda one: "\n".join(
        f"{case['case_id']} {case['status']} ({case['resolution']})" for case in one["cases"]
    ),
    "Phases": lambda one: "\n".join(
        f"{name:<14}{duration_text(took)}" for case in one["cases"] for name, took in case["phases"].items()
    ),
    "Record verified": lambda one: f"{'yes' if one['whole'] else 'no'} ({one['streams']} streams)",
    "Repaired in": lambda one: (
        "not repaired" if one["repaired_in_s"] is None else f"{one['repaired_in_s']:.1f} s after the records were sent"
    ),
    "Total time": lambda one: f"{one['ran_for_s']:.1f} s",
}


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of one demo run; events and pages include repeated deliveries, times are in seconds."""

    cluster: str
    records: int
    audit: DeliveryAudit
    verified: Verified
    events: Sequence[Mapping[str, Any]]
    pages: Sequence[Mapping[str, Any]]
    cases: Sequence[CaseView]
    nodes: Sequence[NodeState]
    repaired_in: float
    ran_for: float
    console: str

    @property
    def repaired(self) -> bool:
        """Return whether a case of the demo was resolved by the replacement of its instance."""
        return any(view.case.resolution is Resolution.REPLACED for view in self.cases)

    @property
    def problems(self) -> list[str]:
        """Return one line of text for each check of the demo that failed."""
        states = ", ".join(f"{view.case.id} is {view.case.status}" for view in self.cases) or "no case was opened"
        events = len(_ids(self.events))
        checks = {
            f"node not replaced in time: {states}": self.repaired,
            f"records without an outcome: {len(self.audit.missing)}": self.audit.complete,
            f"record not verified: {next(iter(self.verified.breaks), '')}": self.verified.whole,
            f"events missing on the bus: {events} events for {self.verified.entries} entries": (
                events == self.verified.entries
            ),
            "no page was sent": bool(self.pages),
        }
        return [text for text, passed in checks.items() if not passed]

    def document(self) -> dict[str, Any]:
        """Return the result as one JSON document, for `--json` and for the final table."""
        replaced = next((node for node in self.nodes if node.former_instances), None)
        incarnation = replaced.incarnation if replaced else None
        return {
            "cluster": self.cluster,
            "records": self.records,
            "outcomes": {outcome.value: count for outcome, count in self.audit.outcomes.items()},
            "unaccounted": len(self.audit.missing),
            "entries": self.verified.entries,
            "events": len(_ids(self.events)),
            "deliveries": len(self.events),
            "pages": [dict(page) for page in self._pages()],
            "cases": [_case(view) for view in self.cases],
            "node": replaced.key.node if replaced else None,
            "old_instance": replaced.former_instances[-1] if replaced else None,
            "new_instance": incarnation.instance_id if incarnation else None,
            "whole": self.verified.whole,
            "streams": self.verified.streams,
            "console": f"{self.console}/clusters/{self.cluster}",
            "repaired_in_s": round(self.repaired_in, 3) if self.repaired else None,
            "ran_for_s": round(self.ran_for, 3),
            "wrong": self.problems,
        }

    def _pages(self) -> list[Mapping[str, Any]]:
        """Return the pages in order of time; if times are equal, a triggered page precedes a resolved one."""
        return sorted(self.pages, key=lambda page: (str(page["occurred_at"]), str(page["state"]) != "triggered"))


def _case(view: CaseView) -> dict[str, Any]:
    closed = view.case.closed_at
    return {
        "case_id": view.case.id,
        "node": view.key.node,
        "status": view.case.status,
        "resolution": view.case.resolution,
        "code": view.case.code,
        "phases": view.phases(closed) if closed else {},
        "closed": view.case.status is CaseStatus.RESOLVED,
    }


NODES = 4
POLL_SECONDS = 0.3
DELIVERY_TIMEOUT_SECONDS = 15.0
EXPECTED_PAGES = 2
FINAL_STATUSES = tuple(status for status in CaseStatus if not status.live)


def play(stack: str, *, fresh: bool, timeout: float, output: OutputFormat) -> DemoResult:
    """Start the embedded stack, and run the demo with a cluster and fleet of its own; `timeout` is in seconds."""
    started = time.monotonic()
    info = local.up(fresh, notice, stack=stack)
    use_environment(info.environment)
    session = Session(Target(stack), output, embedded=True)
    cluster = f"demo-{session.now():%Y%m%d-%H%M%S}"
    # Subscribe first: a running stack publishes the first entries faster than a queue is created.
    events = subscribe_to_events(info.environment, info.outputs, cluster)
    pages = subscribe_to_pages(info.environment, info.outputs, cluster)
    nodes = _register(session, cluster, info.environment)
    since = session.now()
    records = demo_records(cluster, nodes, since)
    print_step(f"sending {len(records)} records:")
    for record in records:
        print_step(f"  {record.raw_input.source:<20}{record.raw_input.node:<20}{record.description}")
    sent = len(sender(session)(record.raw_input for record in records).accepted)
    sent_at = time.monotonic()
    _follow(session, cluster, sent, since, sent_at + timeout)
    took = time.monotonic() - sent_at
    verified, directory = session.verify(cluster), session.directory
    result = DemoResult(
        cluster=cluster,
        records=len(records),
        audit=audit_deliveries(session.receipts, since),
        verified=verified,
        events=events.collect(lambda found: len(_ids(found)) >= verified.entries, DELIVERY_TIMEOUT_SECONDS),
        pages=pages.collect(lambda found: len(found) >= EXPECTED_PAGES, DELIVERY_TIMEOUT_SECONDS),
        cases=[*directory.cases(cluster), *directory.cases(cluster, FINAL_STATUSES)],
        nodes=directory.nodes(cluster),
        repaired_in=took,
        ran_for=time.monotonic() - started,
        console=info.console,
    )
    events.remove()
    pages.remove()
    return result


def _register(session: Session, cluster: str, environment: Mapping[str, str]) -> list[str]:
    from faultbridge.adapters.ec2.inventory import Ec2Inventory

    print_step(f"creating {NODES} fake GPU instances and registering them as cluster {cluster}")
    local.create_fleet(cluster, NODES, stack=session.target.stack, environment=environment)
    registration = wire_registration(session.application)
    registration.add_cluster(ClusterConfig(cluster, mode=Mode.ACT, repair_owner=RepairOwner.FAULTBRIDGE))
    instances = Ec2Inventory(session.clients).serving_instances(ClusterConfig(cluster), cluster)
    for instance in instances:
        registration.add_node(cluster, NewNode.of_instance(instance))
    return [instance.name for instance in instances]


def _follow(session: Session, cluster: str, sent: int, since: datetime, deadline: float) -> None:
    """Print the entries until the repair is complete or the deadline has passed."""

    def wait() -> bool:
        time.sleep(POLL_SECONDS)
        return time.monotonic() < deadline and not _is_complete(session, cluster, sent, since)

    print_step("timeline (a scheduled minute takes 3 s in this demo):")
    table = LiveTable(ENTRIES, widths=(14, 22, 58))
    for line in follow(session.timeline, TimelineQuery(cluster), session.ports.clock, wait):
        if session.output.for_people:
            table.add(entry_document(line))


def _is_complete(session: Session, cluster: str, sent: int, since: datetime) -> bool:
    """Return whether a case was closed and none is live, all nodes serve, and every record has an outcome."""
    directory = session.directory
    if directory.cases(cluster) or not directory.cases(cluster, FINAL_STATUSES):
        return False
    counts = directory.cluster(cluster).state.counts
    if sum(counts.values()) != counts.get("healthy", 0) + counts.get("degraded", 0):
        return False
    audit = audit_deliveries(session.receipts, since)
    return audit.complete and audit.sent >= sent


def print_step(text: str) -> None:
    """Print a step of the demo on stderr. The timeline and the result are printed on stdout."""
    print_line(text, to_stderr=True, flush=True)


def _ids(events: Sequence[Mapping[str, Any]]) -> set[str]:
    return {str(event["metadata"]["event_id"]) for event in events}
