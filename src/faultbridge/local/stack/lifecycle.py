"""Start and stop embedded stacks (`up`, `down`), find those that are deployed, and report their status."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from faultbridge.local import clients, environment
from faultbridge.local.stack import files
from faultbridge.local.stack.files import Emulator, StackFolder, StackState, stack_folder
from faultbridge.model.errors import Misconfigured, Transient

# Exact versions, because the patches in `gaps` replace private names of the emulators.
PINNED = {"ministack": "1.4.21", "moto": "5.2.5"}
IDENTITY = {"event-plane": "/_faultbridge/identity", "compute-plane": "/faultbridge/identity"}

_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_ATTEMPTS = 3


def require_pinned() -> None:
    """Raise `Misconfigured` unless both emulators are installed in their pinned versions."""
    for name, wanted in PINNED.items():
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "none"
        if found != wanted:
            raise Misconfigured(f"the embedded stack needs {name} {wanted}, found: {found}; run `make setup`")


def start(folder: StackFolder, stack: str, *, default_ports: bool) -> StackState:
    """Start both emulators and wait until both respond; if one of them fails, stop both.

    If another process takes a chosen port before an emulator does, ports are chosen again, at most twice.
    """
    require_pinned()
    for attempt in range(1, _ATTEMPTS + 1):
        chosen = environment.choose_ports(prefer_default=default_ports)
        try:
            return _start_on(folder, stack, chosen)
        except Transient:
            # Another process may have taken a port after it was chosen.
            taken = not (environment.is_free(chosen.event_plane) and environment.is_free(chosen.compute_plane))
            if not taken or attempt == _ATTEMPTS:
                raise
    raise AssertionError("unreachable")


def stop(state: StackState) -> int:
    """Stop the processes that the state lists; returns the number of processes that were running."""
    return files.stop(emulator.process for emulator in state.emulators)


def is_serving(emulator: Emulator, token: str) -> bool:
    """Return whether the emulator's process runs and answers with this token, which no other server has."""
    return files.is_running(emulator.process) and _answers(emulator, token)


def _start_on(folder: StackFolder, stack: str, chosen: environment.Ports) -> StackState:
    token = uuid4().hex
    folder.discard(folder.scratch)
    for name in ("tmp", "state", "s3"):
        (folder.scratch / name).mkdir(parents=True)
    started: list[Emulator] = []
    try:
        variables = environment.event_plane_environment(chosen, folder, token)
        started.append(_launch(folder, "event-plane", chosen.event_plane, variables))
        variables = environment.compute_plane_environment(chosen, folder, token)
        started.append(_launch(folder, "compute-plane", chosen.compute_plane, variables))
        for emulator in started:
            _wait_until_serving(emulator, token)
    except BaseException:
        files.stop(emulator.process for emulator in started)
        raise
    return StackState(
        stack=stack,
        region=environment.REGION,
        token=token,
        emulators=tuple(started),
        emulator_code=files.of_emulators(),
    )


def _launch(folder: StackFolder, name: str, port: int, variables: Mapping[str, str]) -> Emulator:
    log = folder.log(name)
    log.unlink(missing_ok=True)
    # -P keeps the current folder off the import path.
    command = [sys.executable, "-P", "-m", f"faultbridge.local.servers.{name.replace('-', '_')}"]
    process = files.start(command, environment=variables, log=log)
    return Emulator(name=name, process=process, port=port, log=str(log))


def _wait_until_serving(emulator: Emulator, token: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not _answers(emulator, token):
        if not files.is_running(emulator.process):
            raise Transient(f"the {emulator.name} ended at its start: {last_line(emulator.log)}; see {emulator.log}")
        if time.monotonic() > deadline:
            raise Transient(
                f"the {emulator.name} did not answer on {emulator.endpoint} within {_START_SECONDS:.0f} s: "
                f"{last_line(emulator.log)}; see {emulator.log}"
            )
        time.sleep(_POLL_SECONDS)


def _answers(emulator: Emulator, token: str) -> bool:
    # The token distinguishes this stack's emulator from any other server on the port.
    try:
        answer = clients.http_call(emulator.endpoint + IDENTITY[emulator.name], timeout=2.0)
    except Transient:
        return False
    return isinstance(answer, dict) and answer.get("token") == token


def last_line(log: str | Path) -> str:
    """Return the last non-blank line of a log file, or a text that there is none."""
    try:
        lines = Path(log).read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return "no log"
    return next((line.strip() for line in reversed(lines) if line.strip()), "the log is empty")


if TYPE_CHECKING:
    from faultbridge.local.stack.deployment import Deployment

DEFAULT_STACK = "faultbridge"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StackInfo:
    """A deployed stack: URLs of both planes, outputs, variables for clients, ids and logs of processes."""

    stack: str
    region: str
    endpoint: str
    compute_endpoint: str
    outputs: dict[str, str]
    environment: dict[str, str]
    pids: dict[str, int]
    logs: dict[str, str]

    @property
    def console(self) -> str:
        """Return the URL of the web console of the stack."""
        return f"{self.endpoint}/console"

    def as_json(self) -> dict[str, Any]:
        """Return the fields of this class, and the URL of the web console, as a JSON object."""
        return {**asdict(self), "console": self.console}


def up(
    fresh: bool = False,  # noqa: FBT001, FBT002 - the flag of the command line
    progress: Progress = lambda _line: None,
    *,
    stack: str = DEFAULT_STACK,
    default_ports: bool = True,
    deployment: Deployment | None = None,
) -> StackInfo:
    """Start, build and deploy the stack as far as necessary; do nothing if it is up to date.

    `fresh` restarts it with empty emulators. With `default_ports`, they use their default ports if these are free. If
    the call fails, the processes that it started are stopped; a stack that already ran continues to run.
    """
    folder = stack_folder(stack)
    from faultbridge.local.stack import deployment as deploying  # a command that only looks for a stack needs none

    wanted = deployment or deploying.Deployment.of_project()
    with folder.locked(progress):
        running = _reusable_stack(folder, progress, fresh=fresh)
        state = running or _start(folder, stack, progress, default_ports=default_ports)
        try:
            state = deploying.bring_up_to_date(folder, state, wanted, progress)
        except BaseException:
            if running is None:
                _stop(folder, state)
            raise
        files.write_state(folder, state)
    return _info(state)


def down(*, stack: str = DEFAULT_STACK, progress: Progress = lambda _line: None) -> bool:
    """Stop the processes of a stack and delete its folder; returns False if no process was running.

    The packages stay: they hold no data, and the next start of any stack uses them.
    """
    folder = stack_folder(stack)
    if not folder.root.exists():
        return False
    with folder.locked(progress):
        state = files.read_state(folder)
        stopped = _stop(folder, state) if state else 0
        folder.discard(folder.root)
    return stopped > 0


def stack_info(*, stack: str = DEFAULT_STACK) -> StackInfo | None:
    """Return the stack of a state file, or None; its processes may have ended since."""
    state = _deployed_state(stack)
    return _info(state) if state else None


def stack_names() -> list[str]:
    """Return the names of the embedded stacks that are started and deployed, by their state files."""
    try:
        home = files.state_home()
    except Misconfigured:
        return []
    folders = sorted(home.iterdir()) if home.is_dir() else []
    return [one.name for one in folders if one.name.replace("-", "").isalnum() and _deployed_state(one.name)]


def endpoint_environment(*, stack: str = DEFAULT_STACK) -> dict[str, str]:
    """Return the variables that direct AWS clients to a deployed stack, or an empty dictionary."""
    state = _deployed_state(stack)
    return environment.client_environment(state.ports) if state else {}


def _deployed_state(stack: str) -> StackState | None:
    try:
        state = files.read_state(stack_folder(stack))
    except Misconfigured:
        return None  # no checkout, or not a valid stack name: there is no embedded stack
    return state if state and state.deployed else None


def _reusable_stack(folder: StackFolder, progress: Progress, *, fresh: bool) -> StackState | None:
    """Return the running stack, or None, and stop one that must be started again."""
    state = files.read_state(folder)
    if state is None:
        return None
    reason = _restart_reason(state, fresh=fresh)
    if not reason:
        return state
    progress(f"restarting: {reason}")
    _stop(folder, state)
    return None


def _restart_reason(state: StackState, *, fresh: bool) -> str:
    if fresh:
        return "a fresh start was requested"
    for emulator in state.emulators:
        if not is_serving(emulator, state.token):
            return f"the {emulator.name} is not running and its data is lost"
    if state.emulator_code != files.of_emulators():
        return "the code of the emulators changed"
    return ""


def _start(folder: StackFolder, stack: str, progress: Progress, *, default_ports: bool) -> StackState:
    progress("starting the event plane and the compute plane on 127.0.0.1")
    state = start(folder, stack, default_ports=default_ports)
    # Write the state now: if the deployment is killed, `down` must still find the processes.
    files.write_state(folder, state)
    return state


def _stop(folder: StackFolder, state: StackState) -> int:
    stopped = stop(state)
    files.remove_state(folder)
    return stopped


def _info(state: StackState) -> StackInfo:
    by_name = {emulator.name: emulator for emulator in state.emulators}
    return StackInfo(
        stack=state.stack,
        region=state.region,
        endpoint=by_name["event-plane"].endpoint,
        compute_endpoint=by_name["compute-plane"].endpoint,
        outputs=dict(state.outputs),
        environment=environment.client_environment(state.ports),
        pids={name: emulator.process.pid for name, emulator in by_name.items()},
        logs={name: emulator.log for name, emulator in by_name.items()},
    )


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
    emulators = tuple(
        EmulatorStatus(one.name, one.process.pid, is_serving(one, state.token), one.endpoint, one.log)
        for one in state.emulators
    )
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
