"""`up`, `down`, and how a client finds a stack that is up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from faultbridge.errors import Misconfigured
from faultbridge.local import deploy, emulators, fingerprint, state
from faultbridge.local.environment import client_environment
from faultbridge.local.paths import StackFolder, stack_folder
from faultbridge.local.state import StackState

DEFAULT_STACK = "faultbridge"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StackInfo:
    """An embedded stack that is up: its name, where it answers, its outputs, and the files of its processes."""

    stack: str
    region: str
    endpoint: str
    compute_endpoint: str
    outputs: dict[str, str]
    environment: dict[str, str]
    pids: dict[str, int]
    logs: dict[str, str]

    def as_json(self) -> dict[str, Any]:
        """Return the same as one JSON object."""
        return asdict(self)


def _silent(_line: str) -> None:
    return


def up(
    fresh: bool = False,  # noqa: FBT001, FBT002 - the switch of the command line
    progress: Progress = _silent,
    *,
    stack: str = DEFAULT_STACK,
    usual_ports: bool = True,
    deployment: deploy.Deployment | None = None,
) -> StackInfo:
    """Start, build and deploy what is not there yet; quick and harmless when all is.

    `fresh` starts over with empty emulators. A start that fails leaves nothing running.
    """
    folder = stack_folder(stack)
    wanted = deployment or deploy.Deployment.of_project()
    with folder.locked(progress):
        running = _still_good(folder, progress, fresh=fresh)
        known = running or _start(folder, stack, progress, usual_ports=usual_ports)
        try:
            known = deploy.bring_up_to_date(folder, known, wanted, progress)
        except BaseException:
            if running is None:
                _stop(folder, known)
            raise
        state.write(folder, known)
    return _info(known)


def down(*, stack: str = DEFAULT_STACK, progress: Progress = _silent) -> bool:
    """Stop the stack's processes and forget it; False when it was not up."""
    folder = stack_folder(stack)
    if not folder.root.exists():
        return False
    with folder.locked(progress):
        known = state.read(folder)
        if known is None:
            return False
        return _stop(folder, known) > 0


def stack_info(*, stack: str = DEFAULT_STACK) -> StackInfo | None:
    """Return the stack as its state file has it; None when it is not up."""
    known = _known(stack)
    return _info(known) if known else None


def endpoint_environment(*, stack: str = DEFAULT_STACK) -> dict[str, str]:
    """Return the variables that aim any AWS client at the stack; empty when it is not up."""
    known = _known(stack)
    return client_environment(known.ports) if known else {}


def _known(stack: str) -> StackState | None:
    try:
        known = state.read(stack_folder(stack))
    except Misconfigured:
        return None  # outside a checkout, or with a name that is none of ours, there is no embedded stack
    return known if known and known.deployed else None


def _still_good(folder: StackFolder, progress: Progress, *, fresh: bool) -> StackState | None:
    """Return the stack that is up already, if it can stay; what cannot stay is stopped."""
    known = state.read(folder)
    if known is None:
        return None
    reason = _reason_to_start_over(known, fresh=fresh)
    if not reason:
        return known
    progress(f"starting over: {reason}")
    _stop(folder, known)
    return None


def _reason_to_start_over(known: StackState, *, fresh: bool) -> str:
    if fresh:
        return "as asked"
    for emulator in known.emulators:
        if not emulators.serves(emulator, known.token):
            return f"the {emulator.name} is gone, and with it what it held"
    if known.emulator_code != fingerprint.of_emulators():
        return "the emulators run older code of ours"
    return ""


def _start(folder: StackFolder, stack: str, progress: Progress, *, usual_ports: bool) -> StackState:
    progress("starting the event plane and the compute plane on 127.0.0.1")
    known = emulators.start(folder, stack, usual_ports=usual_ports)
    # Written at once: a deployment that is killed leaves processes that `down` must find.
    state.write(folder, known)
    return known


def _stop(folder: StackFolder, known: StackState) -> int:
    stopped = emulators.stop(known)
    state.remove(folder)
    return stopped


def _info(known: StackState) -> StackInfo:
    by_name = {emulator.name: emulator for emulator in known.emulators}
    return StackInfo(
        stack=known.stack,
        region=known.region,
        endpoint=by_name["event-plane"].endpoint,
        compute_endpoint=by_name["compute-plane"].endpoint,
        outputs=dict(known.outputs),
        environment=client_environment(known.ports),
        pids={name: emulator.process.pid for name, emulator in by_name.items()},
        logs={name: emulator.log for name, emulator in by_name.items()},
    )
