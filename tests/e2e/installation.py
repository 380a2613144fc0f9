"""A deployed Faultbridge as its users have it: its queue, its bus, its topics, its command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pytest

from faultbridge import local
from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.ports import AwsPorts
from faultbridge.adapters.clock import SystemClock
from faultbridge.adapters.messaging.receipts import LogReceipts
from faultbridge.bootstrap import Application
from faultbridge.cli.stack.locate import settings_from
from faultbridge.domain.cases import Case
from faultbridge.domain.clusters import ClusterConfig, Mode, RepairOwner
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.ingest.delivery_audit import OUTCOME
from faultbridge.ingest.send import Parcel, Send
from faultbridge.ledger.append import Stack
from faultbridge.ledger.timeline import Timeline, Wanted
from faultbridge.local import requests
from faultbridge.ports import RecordQueue, RecordQueueDepth
from faultbridge.registry.registration import NewNode
from faultbridge.registry.views import Views
from faultbridge.storage import keys
from faultbridge.storage.writes import WORK
from tests.e2e.listeners import Inbox, Tap
from tests.e2e.wire import Wire
from tests.local.stack import PrivateStack

T = TypeVar("T")

MOVING = (CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.IN_PROGRESS)
"""Cases that the machine is still at work on."""

STARTED_AT_ONCE = 4
"""How many workers start at once: more would only wait for each other on two cores."""


@dataclass(frozen=True, slots=True)
class Remembering:
    """A queue that remembers what was put on it, so that it can come again."""

    queue: RecordQueue
    sent: list[tuple[str, str]] = field(default_factory=list)

    def send(self, messages: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Send and remember."""
        self.sent.extend(messages)
        return self.queue.send(messages)

    def depth(self) -> RecordQueueDepth:
        """As the queue."""
        return self.queue.depth()


@dataclass(frozen=True)
class Installation:
    """One deployment, everything that listens to it, and the wire between its functions and the emulators, if one."""

    stack: PrivateStack
    tap: Tap
    urgent: Inbox
    notice: Inbox
    wire: Wire | None = None

    @property
    def wire_in_use(self) -> Wire:
        """The wire, where there is one."""
        assert self.wire is not None
        return self.wire

    @cached_property
    def application(self) -> Application:
        """The services that a command line has, over the real adapters."""
        settings = settings_from(self.stack.info.stack, self.stack.outputs)
        ports = AwsPorts(settings, aimed_clients(self.stack))
        return Application(ports, Stack(settings.stack_id, settings.stack))

    @cached_property
    def directory(self) -> Views:
        """Clusters, nodes and cases as they are now."""
        return Views(self.application.ports.table)

    @cached_property
    def timeline(self) -> Timeline:
        """What is on the record."""
        return Timeline(self.application.ports.table)

    @cached_property
    def receipts(self) -> LogReceipts:
        """The receipts of senders and of ingest."""
        outputs = self.stack.outputs
        clients = aimed_clients(self.stack)
        return LogReceipts(clients, group=outputs["SendersLogGroup"], also_read=(outputs["IngestLogGroup"],))

    def cluster(self, nodes: int, *, fleet: int = 0, acts: bool = True) -> str:
        """Register a cluster of `node-000`...; the first `fleet` nodes sit in a group that fills their nodes again."""
        name = f"train-{uuid.uuid4().hex[:6]}"
        owner, mode = (RepairOwner.FAULTBRIDGE, Mode.ACT) if acts else (RepairOwner.OBSERVE, Mode.OBSERVE)
        registration = self.application.registration
        registration.add_cluster(ClusterConfig(name, repair_owner=owner, mode=mode))
        instances = local.create_fleet(name, fleet, environment=self.stack.info.environment) if fleet else []
        for number in range(nodes):
            seated = number < len(instances)
            # Without a group nobody would fill the node again; an instance sits in it all the same.
            instance = instances[number] if seated else f"i-{uuid.uuid4().hex[:17]}"
            node = NewNode(f"node-{number:03}", instance, group=name if seated else None)
            registration.add_node(name, node)
        return name

    def send(self, parcels: Iterable[Parcel]) -> list[tuple[str, str]]:
        """Put records on the real queue with receipts, as `faultbridge send` does; returns the messages."""
        ports = self.application.ports
        queue = Remembering(ports.queue)
        send = Send(queue, ports.objects, self.receipts, SystemClock(), lambda: str(uuid.uuid4()), "tests")
        sent = send(parcels)
        assert not sent.refused
        assert sent.receipted
        return queue.sent

    def send_again(self, messages: Sequence[tuple[str, str]]) -> None:
        """Put messages on the queue that were there already."""
        assert self.application.ports.queue.send(messages) == ()

    def command(self, *arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Run the command line as a person does who has the embedded stack up and nothing else said."""
        return call_command(*arguments, stdin=stdin, home=self.stack.home)

    def as_json(self, *arguments: str, exit_code: int = 0) -> Any:
        """Run a command with `--json` and read what it prints."""
        done = self.command(*arguments, "--json")
        assert done.returncode == exit_code, done.stderr.decode()
        return json.loads(done.stdout)

    def ask(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Ask the API, or post to it; the emulator asks nobody for a signature."""
        api = self.stack.outputs["ApiId"]
        return requests.call(f"{self.stack.info.endpoint}/_aws/execute-api/{api}/$default{path}", body, timeout=30.0)

    def invoke(self, function: str, event: Mapping[str, Any]) -> Any:
        """Call a function as its trigger would, and read its answer."""
        name = f"{self.stack.info.stack}-{function}"
        answer = self.stack.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
        told = json.loads(answer["Payload"].read())
        assert "FunctionError" not in answer, told
        return told

    # ------------------------------------------------------------ what is there now

    def depth(self) -> RecordQueueDepth:
        """How many raw records wait and are in flight."""
        return self.application.ports.queue.depth()

    def unpublished(self) -> int:
        """How many entries wait to be put on the bus."""
        table = self.application.ports.table
        return sum(len(table.query(outbox, index=WORK).items) for outbox in keys.OUTBOXES)

    def states(self, cluster: str) -> dict[str, NodeState]:
        """Every node of a cluster by name."""
        return {state.key.node: state for state in self.directory.nodes(cluster)}

    def cases(self, cluster: str) -> list[Case]:
        """Every case of a cluster, live or not, oldest first."""
        return [view.case for view in self.directory.cases(cluster, tuple(CaseStatus))]

    def entries(self, cluster: str) -> dict[str, dict[str, Any]]:
        """Every entry of a cluster and its nodes by event id, as customers get it."""
        lines = self.timeline.entries(Wanted(cluster=cluster))
        return {event["metadata"]["event_id"]: event for event in (line.event for line in lines)}

    def executions(self) -> set[str]:
        """The names of all executions of the state machine."""
        machines = self.stack.client("stepfunctions")
        pages = machines.get_paginator("list_executions").paginate(
            stateMachineArn=self.stack.outputs["StateMachineArn"]
        )
        return {execution["name"] for page in pages for execution in page["executions"]}

    def outcomes(self, since: datetime) -> dict[str, list[str]]:
        """The outcomes that ingest told of each record, one a delivery that was worked to its end."""
        told: dict[str, list[str]] = {}
        for line in self.receipts.read(since):
            if line.get("kind") == OUTCOME:
                for record, outcome in line["records"].items():
                    told.setdefault(record, []).append(outcome)
        return told

    def functions(self) -> list[str]:
        """The functions by their short names."""
        prefix = f"{self.stack.info.stack}-"
        listed = self.stack.client("lambda").list_functions()["Functions"]
        return [function["FunctionName"].removeprefix(prefix) for function in listed]

    def configure(self, variables: Mapping[str, Mapping[str, str]]) -> None:
        """Give functions more environment variables, each its own, and start their workers anew with them."""
        client = self.stack.client("lambda")

        def begin(function: str) -> object:
            name = f"{self.stack.info.stack}-{function}"
            known = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
            wanted = {**known, **variables[function]}
            client.update_function_configuration(FunctionName=name, Environment={"Variables": wanted})
            # So that no test waits for Python to begin.
            return requests.call(f"{self.stack.info.endpoint}/_faultbridge/warm", {"function": name}, timeout=60.0)

        with ThreadPoolExecutor(STARTED_AT_ONCE) as pool:
            assert all(started == {"error": ""} for started in pool.map(begin, variables))

    def kill(self, function: str) -> int:
        """End a function's worker as a crash would, and wait until it is gone; returns the process id it had."""
        pid = self.worker(function)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: _gone(pid), 10)
        return pid

    def worker(self, function: str) -> int:
        """The process id of a function's worker, as the kernel knows it: a child of the event plane that runs it."""
        pid = next(pid for name, pid in self.stack.workers().items() if name.endswith(f"-{function}"))
        assert _parent(pid) == self.stack.info.pids["event-plane"]
        return pid

    # ------------------------------------------------------------ waiting

    def settle(self, cluster: str, seconds: float = 90.0) -> None:
        """Wait until the queue is empty, nothing waits for the bus, and no case is being worked on."""
        eventually(lambda: self._at_rest(cluster), seconds, lambda: self._restless(cluster))

    def swept(self) -> None:
        """Let a whole round of the sweep begin and end, beside those that the schedule brings."""
        self.invoke("sweep", {})

    def _at_rest(self, cluster: str) -> bool:
        depth = self.depth()
        if depth.waiting or depth.in_flight:
            return False
        return not self.directory.cases(cluster, MOVING) and not self.unpublished()

    def _restless(self, cluster: str) -> str:
        cases = Counter(case.status.value for case in self.cases(cluster))
        return f"queue {self.depth()}, {self.unpublished()} entries unpublished, cases {dict(cases)}"


def call_command(*arguments: str, stdin: bytes | None, home: Path) -> subprocess.CompletedProcess[bytes]:
    """Run `faultbridge` in a process of its own, with nothing of AWS in its environment."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment["FAULTBRIDGE_HOME"] = str(home)
    code = "import sys; from faultbridge.cli import main; sys.exit(main())"
    called = [sys.executable, "-c", code, *arguments]
    return subprocess.run(called, input=stdin, env=environment, capture_output=True, check=False, timeout=120)


def aimed_clients(stack: PrivateStack) -> Clients:
    """Clients of the stack, made here and now so that the environment of other tests stays as it is."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in stack.info.environment.items():
            patch.setenv(name, value)
        clients = Clients()
        for name in (
            "dynamodb",
            "events",
            "sqs",
            "s3",
            "sns",
            "stepfunctions",
            "logs",
            "ec2",
            "autoscaling",
            "ssm",
            "eks",
        ):
            getattr(clients, name)
    return clients


def eventually(look: Callable[[], T], seconds: float, why: Callable[[], object] = lambda: "") -> T:
    """The first thing seen that is true; fails with what `why` tells when nothing came in time."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {why()}"
        time.sleep(0.1)
    return seen


def _state_and_parent(pid: int) -> list[str]:
    # The name of the program stands in brackets and may hold anything; state and parent follow it.
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]


def _parent(pid: int) -> int:
    return int(_state_and_parent(pid)[1])


def _gone(pid: int) -> bool:
    try:
        return _state_and_parent(pid)[0] == "Z"
    except FileNotFoundError:
        return True
