"""A deployed Faultbridge as its users see it: its queue, its bus, its topics, its CLI."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any
from urllib.request import urlopen

from faultbridge import local
from faultbridge.adapters.aws.receipts import LogReceipts
from faultbridge.adapters.clock import SystemClock
from faultbridge.cli.stack.locate import settings_from
from faultbridge.local import clients
from faultbridge.model.cases import Case
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage.writes import WORK, Work
from faultbridge.record.ports.messaging import RecordQueueDepth
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.repair.registry.registration import NewNode
from faultbridge.repair.registry.views import Views
from faultbridge.serve.ingest.outcomes import outcomes_in
from faultbridge.serve.ingest.send import RawInput, Send
from faultbridge.serve.wiring import installation as composition
from faultbridge.serve.wiring.services import wire_registration
from tests.e2e.harness.processes import Completed, clients_of, is_gone, parent_of, run_cli
from tests.e2e.harness.proxy import RecordingProxy
from tests.e2e.harness.queues import EventQueue, PageQueue, RecordingQueue
from tests.local.stack import PrivateStack
from tests.waiting import BUSY_FACTOR, eventually

ACTIVE = (CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.IN_PROGRESS)
"""Cases with automated work left."""

PARALLEL_STARTS = 4
"""The number of workers that start at once; two CPU cores gain nothing from more."""


@dataclass(frozen=True)
class Installation:
    """A deployment, the queues that observe it, and the optional proxy of its functions' calls."""

    stack: PrivateStack
    events: EventQueue
    urgent: PageQueue
    notice: PageQueue
    proxy: RecordingProxy | None = None

    @property
    def required_proxy(self) -> RecordingProxy:
        """The proxy; an installation without one fails the test."""
        assert self.proxy is not None
        return self.proxy

    @cached_property
    def application(self) -> composition.Installation:
        """The services of the CLI with the real adapters."""
        settings = settings_from(self.stack.info.stack, self.stack.outputs)
        return composition.on_aws(settings, clients_of(self.stack))

    @cached_property
    def directory(self) -> Views:
        """The current clusters, nodes and cases."""
        return Views(self.application.ports.table)

    @cached_property
    def timeline(self) -> Timeline:
        """The recorded entries."""
        return Timeline(self.application.ports.table)

    @cached_property
    def receipts(self) -> LogReceipts:
        """The receipts of senders and of ingest."""
        outputs = self.stack.outputs
        logs = clients_of(self.stack)
        return LogReceipts(logs, group=outputs["SendersLogGroup"], also_read=(outputs["IngestLogGroup"],))

    def register_cluster(self, nodes: int, *, fleet: int = 0, act: bool = True) -> str:
        """Register a cluster of `node-000`...; the first `fleet` nodes are in an Auto Scaling group.

        `act` allows repairs; otherwise the cluster is only observed.
        """
        name = f"train-{uuid.uuid4().hex[:6]}"
        owner, mode = (RepairOwner.FAULTBRIDGE, Mode.ACT) if act else (RepairOwner.OBSERVE, Mode.OBSERVE)
        registration = wire_registration(self.application)
        registration.add_cluster(ClusterConfig(name, repair_owner=owner, mode=mode))
        instances = local.create_fleet(name, fleet, environment=self.stack.info.environment) if fleet else []
        for number in range(nodes):
            grouped = number < len(instances)
            # A node without a group has an instance too, but no group launches a successor.
            instance = instances[number] if grouped else f"i-{uuid.uuid4().hex[:17]}"
            node = NewNode(f"node-{number:03}", instance, group=name if grouped else None)
            try:
                registration.add_node(name, node)
            except Rejected as error:
                if error.reason != "alias_taken":
                    raise
                # The inventory was faster and registered the rest of the group under its own names.
                return self.register_cluster(nodes, fleet=fleet, act=act)
        return name

    def send(self, raw_inputs: Iterable[RawInput]) -> list[tuple[str, str]]:
        """Send records with receipts to the real queue, as `faultbridge send` does; return the messages."""
        ports = self.application.ports
        queue = RecordingQueue(ports.queue)
        send = Send(queue, ports.objects, self.receipts, SystemClock(), lambda: str(uuid.uuid4()), "tests")
        sent = send(raw_inputs)
        assert not sent.refused
        assert sent.receipts_written
        return queue.sent

    def send_again(self, messages: Sequence[tuple[str, str]]) -> None:
        """Send messages that were sent before."""
        assert self.application.ports.queue.send(messages) == ()

    def cli(self, *arguments: str, stdin: bytes | None = None) -> Completed:
        """Run the CLI as a user of the embedded stack, without further configuration."""
        return run_cli(*arguments, stdin=stdin, home=self.stack.home)

    def cli_json(self, *arguments: str, exit_code: int = 0) -> Any:
        """Run a command with `--json` and return its parsed output."""
        done = self.cli(*arguments, "--json")
        assert done.returncode == exit_code, done.stderr.decode()
        return json.loads(done.stdout)

    def call_api(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a GET request to the API, or a POST request with a body; the emulator requires no signature."""
        return clients.http_call(f"{self.stack.outputs['ApiUrl']}{path}", body, timeout=30.0 * BUSY_FACTOR)

    def open_page(self, path: str = "") -> str:
        """Return a page of the console."""
        with urlopen(f"{self.stack.info.console}{path}", timeout=30.0 * BUSY_FACTOR) as answer:  # noqa: S310 - a loopback address
            text: str = answer.read().decode()
        return text

    def invoke(self, function: str, event: Mapping[str, Any]) -> Any:
        """Invoke a function as its trigger does and return its answer."""
        name = f"{self.stack.info.stack}-{function}"
        answer = self.stack.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
        payload = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, payload
        return payload

    def depth(self) -> RecordQueueDepth:
        """Return the numbers of waiting and in-flight raw records."""
        return self.application.ports.queue.depth()

    def unpublished(self) -> int:
        """Return the number of entries that are not on the bus yet."""
        table = self.application.ports.table
        return sum(len(table.query(outbox, index=WORK).items) for outbox in Work.UNPUBLISHED.partitions())

    def states(self, cluster: str) -> dict[str, NodeState]:
        """Return every node of a cluster by name."""
        return {state.key.node: state for state in self.directory.nodes(cluster)}

    def instance_of(self, cluster: str, node: str) -> str:
        """Return the id of the instance that currently backs a node."""
        incarnation = self.states(cluster)[node].incarnation
        assert incarnation is not None
        assert incarnation.instance_id is not None
        return incarnation.instance_id

    def cases(self, cluster: str) -> list[Case]:
        """Return every case of a cluster, live or final, oldest first."""
        return [view.case for view in self.directory.cases(cluster, tuple(CaseStatus))]

    def entries(self, cluster: str) -> dict[str, dict[str, Any]]:
        """Return every entry of a cluster and its nodes by event id, in the form of its event."""
        lines = self.timeline.entries(TimelineQuery(cluster=cluster))
        return {event["metadata"]["event_id"]: event for event in (json.loads(line.body) for line in lines)}

    def executions(self) -> set[str]:
        """Return the names of all executions of the state machine."""
        step_functions = self.stack.client("stepfunctions")
        pages = step_functions.get_paginator("list_executions").paginate(
            stateMachineArn=self.stack.outputs["StateMachineArn"]
        )
        return {execution["name"] for page in pages for execution in page["executions"]}

    def outcomes(self, since: datetime) -> dict[str, list[str]]:
        """Return the outcomes that ingest reported for each record, one for each completed delivery."""
        outcomes: dict[str, list[str]] = {}
        for line in self.receipts.read(since):
            for record, outcome in outcomes_in(line):
                outcomes.setdefault(record, []).append(outcome.value)
        return outcomes

    def wait_for_outcomes(
        self, records: Iterable[str], since: datetime, before: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Wait until each record has more outcomes than before; log lines arrive after the message was deleted."""
        wanted = set(records)

        def missing() -> set[str]:
            outcomes = self.outcomes(since)
            return {record for record in wanted if len(outcomes.get(record, ())) <= before.get(record, 0)}

        eventually(lambda: not missing(), 60, missing)

    def functions(self) -> list[str]:
        """Return the short names of all functions."""
        prefix = f"{self.stack.info.stack}-"
        listed = self.stack.client("lambda").list_functions()["Functions"]
        return [function["FunctionName"].removeprefix(prefix) for function in listed]

    def set_variables(self, variables: Mapping[str, Mapping[str, str]]) -> None:
        """Add environment variables to functions, by function, and restart their workers.

        All functions get their variables before the first worker starts, so a failed start leaves none without them.
        """
        client = self.stack.client("lambda")

        def update(function: str) -> None:
            name = f"{self.stack.info.stack}-{function}"
            current = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            merged = {**current, **variables[function]}
            client.update_function_configuration(FunctionName=name, Environment={"Variables": merged})

        def start(function: str) -> object:
            # Start the worker now, so that no test waits for the start of Python.
            url = f"{self.stack.info.endpoint}/_faultbridge/warm"
            return clients.http_call(
                url, {"function": f"{self.stack.info.stack}-{function}"}, timeout=60.0 * BUSY_FACTOR
            )

        with ThreadPoolExecutor(PARALLEL_STARTS) as pool:
            list(pool.map(update, variables))
            assert all(started == {"error": ""} for started in pool.map(start, variables))

    def kill(self, function: str) -> int:
        """Kill a function's worker and wait until it is gone; return its process id."""
        pid = self.worker(function)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: is_gone(pid), 10)
        return pid

    def worker(self, function: str) -> int:
        """Return the process id of a function's worker, which must be a child of the event plane."""
        pid = next(pid for name, pid in self.stack.workers().items() if name.endswith(f"-{function}"))
        assert parent_of(pid) == self.stack.info.pids["event-plane"]
        return pid

    def wait_until_idle(self, cluster: str, seconds: float = 90.0) -> None:
        """Wait until the queue is empty, all entries are published, and no case has automated work left."""
        eventually(lambda: self._is_idle(cluster), seconds, lambda: self._remaining_work(cluster))

    def run_sweep(self) -> None:
        """Run one complete sweep, in addition to the scheduled sweeps."""
        self.invoke("sweep", {})

    def request_sweep(self) -> None:
        """Start a sweep without waiting for its end, in addition to the scheduled sweeps."""
        name = f"{self.stack.info.stack}-sweep"
        self.stack.client("lambda").invoke(FunctionName=name, InvocationType="Event", Payload=b"{}")

    def _is_idle(self, cluster: str) -> bool:
        depth = self.depth()
        if depth.waiting or depth.in_flight:
            return False
        return not self.directory.cases(cluster, ACTIVE) and not self.unpublished()

    def _remaining_work(self, cluster: str) -> str:
        cases = Counter((case.status.value, case.waiting_for, case.reason) for case in self.cases(cluster))
        return f"queue {self.depth()}, {self.unpublished()} unpublished entries, cases {dict(cases)}"
