"""Report the status of an embedded stack: its processes, its queue depths and its overdue work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from faultbridge.local import clients
from faultbridge.local.stack import files, lifecycle
from faultbridge.local.stack.files import StackState, stack_folder
from faultbridge.local.stack.lifecycle import DEFAULT_STACK


@dataclass(frozen=True, slots=True)
class EmulatorStatus:
    """The process id, URL and log file of an emulator, and whether it responds."""

    name: str
    pid: int
    serving: bool
    endpoint: str
    log: str


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The waiting and in-flight messages of an SQS queue, and whether it is for dead letters."""

    name: str
    logical_id: str
    waiting: int
    in_flight: int
    dead_letters: bool


@dataclass(frozen=True, slots=True)
class StackStatus:
    """The status of a stack; if it is not `up`, queues, executions and `stuck` work were not read."""

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
        """Return the status as a JSON object."""
        return asdict(self)


def status(*, stack: str = DEFAULT_STACK, count_overdue: Callable[[], int] | None = None) -> StackStatus:
    """Return the current status of a stack; `count_overdue` counts its overdue work if the stack is up."""
    state = files.read_state(stack_folder(stack))
    if state is None:
        return StackStatus(stack=stack, up=False)
    emulators = tuple(_emulators(state))
    serving = all(emulator.serving for emulator in emulators)
    if not (serving and state.deployed):
        return StackStatus(stack=stack, up=False, region=state.region, deployed=state.deployed, emulators=emulators)
    return StackStatus(
        stack=stack,
        up=True,
        region=state.region,
        deployed=state.deployed,
        emulators=emulators,
        outputs=dict(state.outputs),
        queues=tuple(_queues(state)),
        executions_running=_running_executions(state),
        stuck=count_overdue() if count_overdue else None,
    )


def _emulators(state: StackState) -> Iterator[EmulatorStatus]:
    for one in state.emulators:
        yield EmulatorStatus(
            name=one.name,
            pid=one.process.pid,
            serving=lifecycle.is_serving(one, state.token),
            endpoint=one.endpoint,
            log=one.log,
        )


def _queues(state: StackState) -> Iterator[QueueDepth]:
    sqs = clients.stack_client("sqs", state)
    found = {
        logical_id: (url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"])
        for logical_id, url in clients.resources(state, "AWS::SQS::Queue")
    }
    policies = (clients.json_attribute(attributes.get("RedrivePolicy", "")) for _, attributes in found.values())
    targets = {policy.get("deadLetterTargetArn") for policy in policies}
    for logical_id, (url, attributes) in found.items():
        yield QueueDepth(
            name=url.rsplit("/", 1)[-1],
            logical_id=logical_id,
            waiting=int(attributes["ApproximateNumberOfMessages"]),
            in_flight=int(attributes["ApproximateNumberOfMessagesNotVisible"]),
            # Rules and event source mappings also have dead-letter queues, recognizable by their name.
            dead_letters=attributes["QueueArn"] in targets or logical_id.endswith("DeadLetters"),
        )


def _running_executions(state: StackState) -> int:
    state_machines = clients.resources(state, "AWS::StepFunctions::StateMachine")
    states = clients.stack_client("stepfunctions", state)
    return sum(
        len(page["executions"])
        for _, arn in state_machines
        for page in states.get_paginator("list_executions").paginate(stateMachineArn=arn, statusFilter="RUNNING")
    )
