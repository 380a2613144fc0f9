"""What happens to the installation, once a session; tests look at what came of it."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest

from faultbridge import local
from faultbridge.domain.cases import Case, WaitingFor
from faultbridge.domain.conditions import Condition
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.policy import Limits, Policy
from faultbridge.ingest.send import Parcel
from faultbridge.local.compute_script import healthy_diagnostics
from faultbridge.local.fleet import INSTANCE_TYPE
from faultbridge.registry.registration import NewNode
from faultbridge.storage import items, keys
from faultbridge.storage.codec import dump, load
from faultbridge.storage.wire.message import Message, encode_message, raw_key
from faultbridge.storage.writes import Put
from tests.e2e.bad_input import BAD, INCOMPRESSIBLE, LONG_BUT_GOOD, NO_MESSAGE
from tests.e2e.batches import DOUBLE_BIT, GROUP_OF_THE_FAULTY, LOST, Batch, mixed, reversed_and_interleaved
from tests.e2e.installation import Installation, eventually
from tests.e2e.wire import Accident

RECORDS, NODES = 500, 100
LATER_DAYS = 20


@dataclass(frozen=True)
class Sent:
    """A cluster, what was sent to it and since when."""

    cluster: str
    since: datetime
    messages: list[tuple[str, str]]
    batch: Batch

    @property
    def records(self) -> list[str]:
        """The ids of the records."""
        return [json.loads(text)["record_id"] for _, text in self.messages]


@dataclass(frozen=True)
class Picture:
    """What must not change when known records come again."""

    conditions: dict[str, dict[str, Condition]]
    cases: list[Case]
    pages: list[tuple[str, str]]
    executions: set[str]
    entries: set[str]


@dataclass(frozen=True)
class Replayed:
    """The pictures before and after, and the outcomes of the deliveries in between."""

    before: Picture
    after: Picture
    outcomes: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def sent(installation: Installation) -> Sent:
    """500 records of 100 nodes, worked until nothing moves any more."""
    cluster = installation.cluster(NODES, fleet=GROUP_OF_THE_FAULTY)
    batch = mixed(cluster, records=RECORDS, nodes=NODES, seed=7)
    since = datetime.now(UTC)
    messages = installation.send(batch.parcels)
    installation.settle(cluster, 180)
    return Sent(cluster, since, messages, batch)


@pytest.fixture(scope="session")
def replayed(installation: Installation, sent: Sent) -> Replayed:
    """The same records again twenty days later, from the last to the first, early ones among late ones."""
    with later(installation, LATER_DAYS):
        before = at_rest(installation, sent.cluster)
        known = {record: len(told) for record, told in installation.outcomes(sent.since).items()}
        installation.send_again(reversed_and_interleaved(sent.messages))
        installation.settle(sent.cluster, 120)
        installation.swept()
        installation.settle(sent.cluster)
        after = picture(installation, sent.cluster)
        told = installation.outcomes(sent.since)
    again = [outcome for record in sent.records for outcome in told[record][known[record] :]]
    return Replayed(before, after, again)


@contextmanager
def later(installation: Installation, days: float, *functions: str) -> Iterator[None]:
    """Let these functions, or every one, live so many days later meanwhile."""
    wanted = functions or installation.functions()
    installation.configure({function: _offset(days) for function in wanted})
    try:
        yield
    finally:
        installation.configure({function: _offset(0) for function in wanted})


def _offset(days: float) -> dict[str, str]:
    return {"FAULTBRIDGE_CLOCK_OFFSET_SECONDS": str(int(days * 86_400))}


def at_rest(installation: Installation, cluster: str) -> Picture:
    """The picture once a whole sweep has changed nothing in it."""
    seen = picture(installation, cluster)
    for _ in range(10):
        installation.swept()
        installation.settle(cluster)
        before, seen = seen, picture(installation, cluster)
        if seen == before:
            return seen
    raise AssertionError("the cluster does not come to rest")


def picture(installation: Installation, cluster: str) -> Picture:
    """Everything that people and machines could act upon."""
    pages: list[dict[str, Any]] = [*installation.urgent.pages(cluster), *installation.notice.pages(cluster)]
    return Picture(
        conditions={node: dict(state.conditions) for node, state in installation.states(cluster).items()},
        cases=installation.cases(cluster),
        pages=sorted((page["dedup_key"], page["state"]) for page in pages),
        executions=installation.executions(),
        entries=set(installation.entries(cluster)),
    )


# ---------------------------------------------------------------- workers that are killed

CRASHED_NODES, GPUS = 30, 8


@dataclass(frozen=True)
class Crashed:
    """A cluster whose records were worked while workers were killed, and how often each call met its accident."""

    cluster: str
    since: datetime
    messages: list[tuple[str, str]]
    accidents: tuple[Accident, ...]
    killed: tuple[int, ...]


@pytest.fixture(scope="session")
def crashed(installation: Installation) -> Crashed:
    """240 faults, each of another GPU; ingest and publish are killed in mid-batch, before and after a call arrived."""
    cluster = installation.cluster(CRASHED_NODES, acts=False)
    killed: list[int] = []

    def kill(function: str) -> Callable[[], None]:
        return lambda: killed.append(installation.kill(function))

    accidents = (
        Accident("ingest", "dynamodb:TransactWriteItems", then=kill("ingest"), skip=3),
        Accident("ingest", "dynamodb:TransactWriteItems", then=kill("ingest"), skip=1, arrives=False),
        Accident("publish", "events:PutEvents", then=kill("publish"), skip=3),
        Accident("publish", "events:PutEvents", then=kill("publish"), skip=3, arrives=False),
    )
    since = datetime.now(UTC)
    with installation.wire_in_use.accidents(*accidents), hidden_for(installation, 5):
        messages = installation.send(
            Parcel("kernel-log", cluster, LOST.replace("c1", f"{16 * gpu + 1:02x}").encode(), node=f"node-{node:03}")
            for gpu in range(GPUS)
            for node in range(CRASHED_NODES)
        )
        eventually(lambda: all(one.happened for one in accidents), 60, lambda: accidents)
        installation.settle(cluster)
    return Crashed(cluster, since, messages, accidents, tuple(killed))


@contextmanager
def hidden_for(installation: Installation, seconds: int) -> Iterator[None]:
    """Let a record that nobody acknowledged come back sooner, so that a test need not wait for it."""
    queues, url = installation.stack.client("sqs"), installation.stack.outputs["RawRecordsQueueUrl"]
    name = "VisibilityTimeout"
    before = queues.get_queue_attributes(QueueUrl=url, AttributeNames=[name])["Attributes"][name]
    queues.set_queue_attributes(QueueUrl=url, Attributes={name: str(seconds)})
    try:
        yield
    finally:
        queues.set_queue_attributes(QueueUrl=url, Attributes={name: before})


# ---------------------------------------------------------------- repairs


@dataclass(frozen=True)
class Repairs:
    """Four nodes: one that a reset mends, one each whose successors are bad, step is killed, provider fails once."""

    cluster: str
    bad_successor: str = "node-000"
    killed_step: str = "node-001"
    provider_fails: str = "node-002"
    needs_reset: str = "node-003"


TERMINATE = "autoscaling:TerminateInstanceInAutoScalingGroup"


@pytest.fixture(scope="session")
def repairs(installation: Installation) -> Repairs:
    """Four repairs, each with its own trouble; the first alone, so that it gets the successors that are bad."""
    scene = Repairs(installation.cluster(4, fleet=4))
    for _ in range(Limits().attempts):
        local.script_bad_on_arrival(installation.stack.info.compute_endpoint)
    _break_down(installation, scene.cluster, scene.bad_successor)
    eventually(lambda: installation.cases(scene.cluster), 60)
    installation.settle(scene.cluster)
    _break_down(installation, scene.cluster, scene.needs_reset, DOUBLE_BIT)
    installation.settle(scene.cluster)
    _kill_steps(installation, scene)
    _let_the_provider_fail(installation, scene)
    return scene


def _break_down(installation: Installation, cluster: str, node: str, line: str = LOST) -> None:
    installation.send([Parcel("kernel-log", cluster, line.encode(), node=node)])


def _kill_steps(installation: Installation, scene: Repairs) -> None:
    """Kill the step's worker once the instance was given up, and once more when its successor is being verified."""

    def kill() -> None:
        installation.kill("replacement")

    # Longer than what SSM answers with, so that it is read from the bucket.
    long = healthy_diagnostics() + " " * 30_000
    local.script_command(installation.stack.info.compute_endpoint, "next", exit_code=0, stdout=long)
    accidents = (
        Accident("replacement", TERMINATE, then=kill),
        Accident("replacement", "dynamodb:TransactWriteItems", then=kill, about='\\"outcome\\":\\"begun\\"'),
    )
    with installation.wire_in_use.accidents(*accidents):
        _break_down(installation, scene.cluster, scene.killed_step)
        eventually(lambda: all(one.happened for one in accidents), 60, lambda: accidents)
        installation.settle(scene.cluster)


def _let_the_provider_fail(installation: Installation, scene: Repairs) -> None:
    """The provider fails at the call, then has no instance, and the first verification leaves no report."""
    compute = installation.stack.info.compute_endpoint
    fail = Accident("replacement", TERMINATE, code="InternalFailure")
    local.script_capacity(compute, INSTANCE_TYPE, available=False)
    local.script_command(compute, "next", exit_code=1, stdout="dcgmi: command not found")
    with installation.wire_in_use.accidents(fail):
        _break_down(installation, scene.cluster, scene.provider_fails)
        eventually(lambda: _at_step(installation, scene, "await_successor"), 60)
        _until_the_sweep_makes(installation, "states:DescribeExecution")
        local.script_capacity(compute, INSTANCE_TYPE, available=True)
        eventually(lambda: _at_step(installation, scene, "verify"), 60)
        _until_the_sweep_makes(installation, "ssm:SendCommand")
        sitting = installation.states(scene.cluster)[scene.provider_fails].incarnation
        assert sitting is not None
        assert sitting.instance_id is not None
        local.script_command(compute, sitting.instance_id, exit_code=0, stdout=healthy_diagnostics())
        installation.settle(scene.cluster)


def _until_the_sweep_makes(installation: Installation, call: str) -> None:
    """Wait until the sweep, which looks after what waits, was so far that it made this call once more."""
    wire = installation.wire_in_use
    before = wire.made("sweep", call)
    eventually(lambda: wire.made("sweep", call) > before, 60)


def _at_step(installation: Installation, scene: Repairs, step: str) -> bool:
    case = installation.states(scene.cluster)[scene.provider_fails].live_case
    return case is not None and case.attempt is not None and case.attempt.step == step


# ---------------------------------------------------------------- what was left undone


@dataclass(frozen=True)
class LeftUndone:
    """A cluster whose event publish could not put on the bus, and a record whose node was registered afterwards."""

    cluster: str
    late_node: str = "node-late"


@pytest.fixture(scope="session")
def left_undone(installation: Installation) -> LeftUndone:
    """Hours later only the sweep is left to do it."""
    scene = LeftUndone(installation.cluster(1, acts=False))
    installation.send([Parcel("kernel-log", scene.cluster, LOST.encode(), node=scene.late_node)])
    eventually(lambda: list(installation.application.rejects.list(scene.cluster)), 60)
    installation.application.registration.add_node(scene.cluster, NewNode(scene.late_node))
    installation.settle(scene.cluster)
    outage = Accident("publish", "events:PutEvents", code="InternalFailure", times=10_000)
    with installation.wire_in_use.accidents(outage):
        installation.send([Parcel("kernel-log", scene.cluster, LOST.encode(), node="node-000")])
        eventually(lambda: outage.happened, 60)
        recorded = set(installation.entries(scene.cluster))
        with later(installation, 0.5, "sweep"):
            eventually(lambda: recorded <= set(installation.tap.deliveries(scene.cluster)), 60)
            eventually(lambda: not list(installation.application.rejects.list(scene.cluster)), 60)
    installation.settle(scene.cluster)
    return scene


# ---------------------------------------------------------------- bad input


@dataclass(frozen=True)
class Mess:
    """A batch of good and bad records in turn, the record ids by what each is called."""

    cluster: str
    since: datetime
    ids: dict[str, str]
    good: list[str]


GONE = "body-that-is-gone"


@pytest.fixture(scope="session")
def mess(installation: Installation) -> Mess:
    """Each bad record between two good ones, all in one batch."""
    cluster = installation.cluster(2 * len(BAD), acts=False)
    since = datetime.now(UTC)
    parcels, names = [], []
    for number, bad in enumerate(BAD):
        good = Parcel("kernel-log", cluster, LONG_BUT_GOOD if number == 0 else LOST.encode(), node=f"node-{number:03}")
        parcels += [good, Parcel(bad.source, cluster, bad.body, node=bad.node)]
        names += ["", bad.name]
    messages = installation.send(parcels)
    installation.send_again([("nobody", text) for text in NO_MESSAGE])
    lost = Message(str(uuid.uuid4()), "kernel-log", cluster, since, pointer=raw_key(cluster, since, b"was never kept"))
    installation.send_again([(lost.group, encode_message(lost))])
    installation.settle(cluster)
    ids = [json.loads(text)["record_id"] for _, text in messages]
    named = {name: one for name, one in zip(names, ids, strict=True) if name} | {GONE: lost.record_id}
    return Mess(cluster, since, named, [one for name, one in zip(names, ids, strict=True) if not name])


# ---------------------------------------------------------------- the doors beside the queue, and those who ask


@dataclass(frozen=True)
class Doors:
    """A cluster whose agent log came through CloudWatch Logs, whose day is kept, and of whose repairs a person approved
    one and denied another.
    """

    cluster: str
    case: str
    denied: str
    codes: list[str]
    answers: dict[str, Any]
    kept: list[dict[str, Any]]


ASKS_FIRST = {
    "version": "asks-first",
    "rules": [{"name": "asks-first", "approval": ["reset_gpu", "reboot_node", "replace_node"]}],
}
"""Whatever is done to a node, a person is asked before."""


@pytest.fixture(scope="session")
def doors(installation: Installation) -> Doors:
    """Everything that comes in or is asked beside the queue, once."""
    application = installation.application
    now = application.ports.clock.now()
    policy = items.item(keys.policy(ASKS_FIRST["version"]), now, {"policy": dump(load(Policy, ASKS_FIRST))})
    application.ports.table.write(Put(policy))
    cluster = installation.cluster(2, fleet=3)
    installation.invoke("inventory", {})
    application.registration.set_cluster(cluster, {"policy": ASKS_FIRST["version"]})

    instance = installation.states(cluster)["node-000"].incarnation
    assert instance is not None
    assert instance.instance_id is not None
    installation.invoke("intake", subscription(instance.instance_id, DOUBLE_BIT))
    installation.invoke("intake", subscription(instance.instance_id, INCOMPRESSIBLE.decode()))
    waiting = eventually(lambda: _waiting_for_approval(installation, cluster), 60)
    codes = [condition.code for condition in installation.states(cluster)["node-000"].active()]
    answers = {
        path: installation.ask(path.format(cluster=cluster, case=waiting))
        for path in (
            "/clusters",
            "/clusters/{cluster}",
            "/clusters/{cluster}/nodes",
            "/clusters/{cluster}/cases/{case}",
        )
    }
    first = installation.ask(f"/clusters/{cluster}/entries?limit=1")
    answers["next page"] = installation.ask(f"/clusters/{cluster}/entries?limit=1&token={quote(first['next'])}")
    answers["approve"] = installation.ask(f"/clusters/{cluster}/cases/{waiting}/approve", {"attempt": 1})
    installation.settle(cluster)
    _break_down(installation, cluster, "node-001")
    denied = eventually(lambda: _waiting_for_approval(installation, cluster), 60)
    answers["deny"] = installation.ask(f"/clusters/{cluster}/cases/{denied}/deny", {"attempt": 1})
    installation.settle(cluster)
    kept = [installation.invoke("archive", {}), installation.invoke("archive", {})]
    with later(installation, 2, "archive"):
        kept.append(installation.invoke("archive", {}))
    return Doors(cluster, waiting, denied, codes, answers, kept)


def _waiting_for_approval(installation: Installation, cluster: str) -> str | None:
    waiting = (case.id for case in installation.cases(cluster) if case.waiting_for is WaitingFor.APPROVAL)
    return next(waiting, None)


def subscription(instance: str, message: str) -> dict[str, Any]:
    """What CloudWatch Logs hands to a function that is subscribed to a node's log."""
    at = int(datetime.now(UTC).timestamp() * 1000)
    batch = {
        "messageType": "DATA_MESSAGE",
        "owner": "111122223333",
        "logGroup": "/nodes/kernel",
        "logStream": instance,
        "subscriptionFilters": ["faultbridge"],
        "logEvents": [{"id": "1", "timestamp": at, "message": message}],
    }
    return {"awslogs": {"data": base64.b64encode(gzip.compress(json.dumps(batch).encode())).decode()}}


# ---------------------------------------------------------------- trouble that ends by itself


@dataclass(frozen=True)
class Recovered:
    """A cluster that is only observed, where a link was down and came back."""

    cluster: str
    node: str = "node-000"


@pytest.fixture(scope="session")
def recovered(installation: Installation) -> Recovered:
    """Two looks at the links of one node."""
    scene = Recovered(installation.cluster(2, acts=False))
    for up, status in ((False, NodeStatus.DEGRADED), (True, NodeStatus.HEALTHY)):
        body = json.dumps({"configured": ["ens6"], "interfaces": [_interface("ens6", up=up)]}).encode()
        installation.send([Parcel("link-state", scene.cluster, body, node=scene.node)])
        _until(installation, scene, status)
    installation.settle(scene.cluster)
    return scene


def _until(installation: Installation, scene: Recovered, status: NodeStatus) -> None:
    eventually(lambda: installation.states(scene.cluster)[scene.node].status is status, 60)


def _interface(name: str, *, up: bool) -> dict[str, Any]:
    flags = ["BROADCAST", "UP", *(["LOWER_UP"] if up else ["NO-CARRIER"])]
    return {"ifname": name, "flags": flags, "operstate": "UP" if up else "DOWN", "link_type": "ether"}
