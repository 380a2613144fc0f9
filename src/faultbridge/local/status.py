"""What runs where, how deep the queues are, and what is stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from faultbridge.local import clients, emulators, state
from faultbridge.local.launcher import DEFAULT_STACK
from faultbridge.local.paths import stack_folder
from faultbridge.local.state import StackState


@dataclass(frozen=True, slots=True)
class EmulatorStatus:
    """One emulator: whether it serves, and where."""

    name: str
    pid: int
    serving: bool
    endpoint: str
    log: str


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Messages of one queue: waiting, and handed out but not yet done with; `dead_letters`: they were given up."""

    name: str
    logical_id: str
    waiting: int
    in_flight: int
    dead_letters: bool


@dataclass(frozen=True, slots=True)
class StackStatus:
    """An embedded stack as it is now; `stuck` is None when nobody counted."""

    stack: str
    up: bool
    region: str = ""
    deployed: str = ""
    emulators: tuple[EmulatorStatus, ...] = ()
    outputs: dict[str, str] | None = None
    queues: tuple[QueueDepth, ...] = ()
    executions_running: int = 0
    stuck: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the same as one JSON object."""
        return asdict(self)


def status(*, stack: str = DEFAULT_STACK, count_stuck: Callable[[], int] | None = None) -> StackStatus:
    """Return the stack as it is; `count_stuck` counts overdue items and is asked only when the stack is up."""
    known = state.read(stack_folder(stack))
    if known is None:
        return StackStatus(stack=stack, up=False)
    seen = tuple(_emulator(known))
    serving = all(emulator.serving for emulator in seen)
    if not (serving and known.deployed):
        return StackStatus(stack=stack, up=False, region=known.region, deployed=known.deployed, emulators=seen)
    return StackStatus(
        stack=stack,
        up=True,
        region=known.region,
        deployed=known.deployed,
        emulators=seen,
        outputs=dict(known.outputs),
        queues=tuple(_queues(known)),
        executions_running=_running_executions(known),
        stuck=count_stuck() if count_stuck else None,
    )


def _emulator(known: StackState) -> Iterator[EmulatorStatus]:
    for one in known.emulators:
        yield EmulatorStatus(
            name=one.name,
            pid=one.process.pid,
            serving=emulators.serves(one, known.token),
            endpoint=one.endpoint,
            log=one.log,
        )


def _queues(known: StackState) -> Iterator[QueueDepth]:
    sqs = clients.of_state("sqs", known)
    found = {
        logical_id: (url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"])
        for logical_id, url in clients.resources(known, "AWS::SQS::Queue")
    }
    policies = (clients.json_attribute(attributes.get("RedrivePolicy", "")) for _, attributes in found.values())
    dead = {policy.get("deadLetterTargetArn") for policy in policies}
    for logical_id, (url, attributes) in found.items():
        yield QueueDepth(
            name=url.rsplit("/", 1)[-1],
            logical_id=logical_id,
            waiting=int(attributes["ApproximateNumberOfMessages"]),
            in_flight=int(attributes["ApproximateNumberOfMessagesNotVisible"]),
            # Rules and mappings have destinations too; the template names each of them for what it is.
            dead_letters=attributes["QueueArn"] in dead or logical_id.endswith("DeadLetters"),
        )


def _running_executions(known: StackState) -> int:
    machines = clients.resources(known, "AWS::StepFunctions::StateMachine")
    states = clients.of_state("stepfunctions", known)
    return sum(
        len(page["executions"])
        for _, arn in machines
        for page in states.get_paginator("list_executions").paginate(stateMachineArn=arn, statusFilter="RUNNING")
    )
