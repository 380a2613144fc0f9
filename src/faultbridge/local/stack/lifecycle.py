"""Start and stop embedded stacks (`up`, `down`), and find the stacks that are started and deployed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from faultbridge.errors import Misconfigured
from faultbridge.local.environment import client_environment
from faultbridge.local.stack import deployment as deploying
from faultbridge.local.stack import emulator_processes, files, fingerprint
from faultbridge.local.stack.deployment import Deployment
from faultbridge.local.stack.files import StackFolder, StackState, stack_folder

DEFAULT_STACK = "faultbridge"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StackInfo:
    """An embedded stack that is started and deployed.

    - `endpoint` is the URL of the event plane, `compute_endpoint` that of the compute plane.
    - `outputs` are the CloudFormation outputs of the deployment.
    - `environment` has the variables that direct AWS clients to the stack.
    - `pids` and `logs` have the process id and the log file of each emulator by name.
    """

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


def _no_progress(_line: str) -> None:
    return


def up(
    fresh: bool = False,  # noqa: FBT001, FBT002 - the flag of the command line
    progress: Progress = _no_progress,
    *,
    stack: str = DEFAULT_STACK,
    default_ports: bool = True,
    deployment: Deployment | None = None,
) -> StackInfo:
    """Start, build and deploy the stack as far as necessary; do nothing if it is up to date.

    - `fresh` restarts the stack with empty emulators.
    - `progress` receives a line of text for each step.
    - With `default_ports`, the emulators use their default ports if these are free, else any free ports.
    - `deployment` is by default that of Faultbridge's own template.

    If the call fails, the processes that it started are stopped. A stack that already ran and needed no restart
    continues to run.
    """
    folder = stack_folder(stack)
    wanted = deployment or Deployment.of_project()
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


def down(*, stack: str = DEFAULT_STACK, progress: Progress = _no_progress) -> bool:
    """Stop the processes of a stack and delete its state file; returns False if no process was running."""
    folder = stack_folder(stack)
    if not folder.root.exists():
        return False
    with folder.locked(progress):
        state = files.read_state(folder)
        if state is None:
            return False
        return _stop(folder, state) > 0


def stack_info(*, stack: str = DEFAULT_STACK) -> StackInfo | None:
    """Return the stack that a state file describes, or None if no stack of this name is deployed.

    It is not checked whether the processes of the stack still run.
    """
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
    """Return the variables that direct AWS clients to the stack.

    The result is empty if the stack is not started and deployed.
    """
    state = _deployed_state(stack)
    return client_environment(state.ports) if state else {}


def _deployed_state(stack: str) -> StackState | None:
    try:
        state = files.read_state(stack_folder(stack))
    except Misconfigured:
        return None  # no checkout, or not a valid stack name: there is no embedded stack
    return state if state and state.deployed else None


def _reusable_stack(folder: StackFolder, progress: Progress, *, fresh: bool) -> StackState | None:
    """Return the running stack, or None if no stack runs or the running stack had to be stopped.

    The running stack is stopped if `fresh` is True, if an emulator does not respond, or if the code of the emulators
    changed.
    """
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
        if not emulator_processes.is_serving(emulator, state.token):
            return f"the {emulator.name} is not running and its data is lost"
    if state.emulator_code != fingerprint.of_emulators():
        return "the code of the emulators changed"
    return ""


def _start(folder: StackFolder, stack: str, progress: Progress, *, default_ports: bool) -> StackState:
    progress("starting the event plane and the compute plane on 127.0.0.1")
    state = emulator_processes.start(folder, stack, default_ports=default_ports)
    # Write the state now: if the deployment is killed, `down` must still find the processes.
    files.write_state(folder, state)
    return state


def _stop(folder: StackFolder, state: StackState) -> int:
    stopped = emulator_processes.stop(state)
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
        environment=client_environment(state.ports),
        pids={name: emulator.process.pid for name, emulator in by_name.items()},
        logs={name: emulator.log for name, emulator in by_name.items()},
    )
