"""The files of an embedded stack: its folder, its lock, and the state file that lists its processes.

Each stack has one folder in `state_home`. By default, `state_home` is inside the project folder.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self
from uuid import uuid4

from faultbridge.local.environment import Ports, endpoint
from faultbridge.model.errors import Misconfigured
from faultbridge.model.values import replace

# A process is identified by its id and its start time. The operating system reuses ids, so an id alone may belong to an
# unrelated process.

_POLL_SECONDS = 0.02
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_STAT_STATE, _STAT_START = 0, 19  # fields 3 and 22 of /proc/<pid>/stat, counted after the command's name


@dataclass(frozen=True, slots=True)
class Process:
    """A process that this module started; `started` distinguishes it from later ones of its id."""

    pid: int
    started: str


def start(command: Sequence[str], *, environment: Mapping[str, str], log: Path) -> Process:
    """Start a detached process in its own session, without input; append the output to a log file."""
    log.parent.mkdir(parents=True, exist_ok=True)
    # posix_spawn instead of subprocess: the child must outlive this process, and no one waits for it.
    pid = os.posix_spawn(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    return Process(pid, _start_time(pid) or "")


def is_running(process: Process) -> bool:
    """Return whether the process with this id and start time runs; an ended child is reaped."""
    _reap(process.pid)
    started = _start_time(process.pid)
    return started is not None and started == process.started


def stop(processes: Iterable[Process], *, grace_seconds: float = 5.0) -> int:
    """Send SIGTERM, then SIGKILL after the grace time; returns the number of processes that ran."""
    running = [process for process in processes if is_running(process)]
    _signal_and_wait(running, signal.SIGTERM, grace_seconds)
    survivors = [process for process in running if is_running(process)]
    _signal_and_wait(survivors, signal.SIGKILL, grace_seconds)
    return len(running)


def terminate_with_parent(parent: str | None) -> None:
    """Request SIGTERM for this process when its parent process ends (Linux only); exit if it has ended.

    The emulators of a test run must end with it, because killed tests cannot stop their stack. Those of the command
    `up` have no `parent`, and continue to run after the command.
    """
    if parent is None or not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):
        raise SystemExit("the parent process has ended already")


def _signal_and_wait(processes: list[Process], number: signal.Signals, seconds: float) -> None:
    for process in processes:
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            continue
    deadline = time.monotonic() + seconds
    while any(is_running(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # an earlier command started it: its own parent reaps it


def _start_time(pid: int) -> str | None:
    proc = Path("/proc")
    return _start_time_from_proc(proc, pid) if (proc / "self" / "stat").exists() else _start_time_from_ps(pid)


def _start_time_from_proc(proc: Path, pid: int) -> str | None:
    try:
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[_STAT_STATE] in {"Z", "X"}:
        return None
    # Ticks since boot repeat after a reboot; the boot id does not.
    boot = (proc / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    return f"{boot}/{fields[_STAT_START]}"


def _start_time_from_ps(pid: int) -> str | None:
    answer = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, started = answer.stdout.strip().partition(" ")
    return started.strip() if started and not state.startswith("Z") else None


_DISCARDED = ".deleted-"
_DELETE = "import os, shutil, sys; os.nice(10); [shutil.rmtree(path, ignore_errors=True) for path in sys.argv[1:]]"
HOME_VARIABLE = "FAULTBRIDGE_HOME"
TEMPLATE = Path("infra") / "template.yaml"
_PACKAGE = Path("src") / "faultbridge"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class StackFolder:
    """The folder of one embedded stack and the paths of its files."""

    root: Path

    @property
    def state(self) -> Path:
        """Return the path of the state file (JSON); a start writes this file, and a stop deletes it."""
        return self.root / "state.json"

    @property
    def packages(self) -> Path:
        """Return the folder with what the stacks of this home deployed; all of them use it, and `down` keeps it."""
        return self.root.parent / ".packages"

    @property
    def scratch(self) -> Path:
        """Return the folder for files that the emulators write; each start empties it."""
        return self.root / "scratch"

    def discard(self, path: Path) -> None:
        """Rename a file or folder of the stack at once, and delete it in a process that no one waits for.

        The scratch folder has tens of thousands of files. The process also deletes what an earlier one left.
        """
        if path.exists():
            path.rename(self.root.parent / f"{_DISCARDED}{uuid4().hex}")
        leftovers = [str(one) for one in self.root.parent.glob(f"{_DISCARDED}*")]
        if leftovers:
            start([sys.executable, "-I", "-c", _DELETE, *leftovers], environment={}, log=Path(os.devnull))

    def log(self, name: str) -> Path:
        """Return the path of the log file of one process or tool."""
        return self.root / "logs" / f"{name}.log"

    @contextmanager
    def locked(self, report: Callable[[str], None]) -> Iterator[None]:
        """Lock the stack for one `up` or `down` at a time; `report` receives a line if this call waits."""
        # The lock is beside the folder, which `down` deletes.
        with locked(
            self.root.with_suffix(".lock"), lambda: report("waiting: another `up` or `down` of this stack is running")
        ):
            yield


@contextmanager
def locked(path: Path, report: Callable[[], None]) -> Iterator[None]:
    """Lock a file within the block; `report` is called if this call waits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True)
class Emulator:
    """A started emulator: its process, its loopback port and its log file."""

    name: str
    process: Process
    port: int
    log: str

    @property
    def endpoint(self) -> str:
        """Return the URL of the emulator, without a trailing slash."""
        return endpoint(self.port)


@dataclass(frozen=True, slots=True)
class StackState:
    """The processes of a started stack, and its latest deployment.

    `token` identifies the emulators, `emulator_code` the code that they have loaded. `deployed` is the fingerprint of
    the latest deployment; it and `outputs` are empty before the first one.
    """

    stack: str
    region: str
    token: str
    emulators: tuple[Emulator, ...]
    emulator_code: str
    deployed: str = ""
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def ports(self) -> Ports:
        """Return the loopback ports of both emulators."""
        by_name = {emulator.name: emulator.port for emulator in self.emulators}
        return Ports(event_plane=by_name["event-plane"], compute_plane=by_name["compute-plane"])

    def with_deployment(self, fingerprint: str, outputs: dict[str, str]) -> Self:
        """Return a copy of the state with the fingerprint and the CloudFormation outputs of a new deployment."""
        return replace(self, deployed=fingerprint, outputs=outputs)


def project_root() -> Path | None:
    """Return the nearest checkout of Faultbridge, else this package's own; None for an installed wheel."""
    here = Path.cwd()
    candidates = (here, *here.parents, Path(__file__).resolve().parents[4])
    # A template alone is not enough: other projects have one too.
    return next((one for one in candidates if (one / TEMPLATE).is_file() and (one / _PACKAGE).is_dir()), None)


def state_home() -> Path:
    """Return the folder of all stacks: `FAULTBRIDGE_HOME`, `.faultbridge` in a checkout, else the user's state."""
    chosen = os.environ.get(HOME_VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    project = project_root()
    if project is not None:
        return project / ".faultbridge"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "faultbridge"


def stack_folder(stack: str) -> StackFolder:
    """Return the folder of a stack; raises `Misconfigured` for a name that CloudFormation would refuse."""
    if not stack.isascii() or not stack.replace("-", "").isalnum() or not stack[:1].isalpha():
        raise Misconfigured(f"invalid stack name: {stack!r}; use letters, digits and hyphens, starting with a letter")
    return StackFolder(state_home() / stack)


def read_state(folder: StackFolder) -> StackState | None:
    """Return the state of a stack, or None without a valid file of the current format version."""
    try:
        document = json.loads(folder.state.read_text())
        if document.pop("version", None) != _VERSION:
            return None
        emulators = (Emulator(**{**one, "process": Process(**one["process"])}) for one in document["emulators"])
        return StackState(**{**document, "emulators": tuple(emulators)})
    except (FileNotFoundError, ValueError, AttributeError, KeyError, TypeError):
        return None


def write_state(folder: StackFolder, state: StackState) -> None:
    """Write the state file atomically, so that readers see either the old or the new file."""
    folder.root.mkdir(parents=True, exist_ok=True)
    draft = folder.state.with_suffix(".new")
    draft.write_text(json.dumps({"version": _VERSION, **asdict(state)}, indent=2) + "\n")
    draft.replace(folder.state)


def remove_state(folder: StackFolder) -> None:
    """Delete the state file; a missing file is not an error."""
    folder.state.unlink(missing_ok=True)


# The inputs of a deployment: those of a checkout, or the index of a wheel, which has the hashes of its archives. Of the
# package, `local` and `cli` run only on this machine.
_DEPLOYED = (
    "index.json",
    "src/faultbridge",
    "functions",
    "infra",
    "schemas",
    "requirements/console.txt",
    "requirements/kubernetes.txt",
    "requirements/lambda.txt",
)
_NOT_DEPLOYED = tuple(f"src/faultbridge/{name}" for name in ("local", "cli", "install/packaged"))
_EMULATORS = ("environment.py", "servers", "gaps", "kubernetes", "hyperpod.py", "stack/files.py")
_IGNORED = {"__pycache__", ".aws-sam", ".mypy_cache", ".ruff_cache"}
_GENERATED = (".pyc", ".asl.json")  # generated from files that are included


def of_deployment(project: Path, parameters: dict[str, str]) -> str:
    """Return the fingerprint of the deployed files of a project and of the parameters of a deployment."""
    excluded = tuple(project / name for name in _NOT_DEPLOYED)
    files = (
        file
        for name in _DEPLOYED
        for file in _files(project / name)
        if not any(file.is_relative_to(folder) for folder in excluded)
    )
    return _digest(project, files, salt=repr((sys.version, sorted(parameters.items()))))


def of_emulators() -> str:
    """Return the fingerprint of the code that the emulators load; if it changed, they must be restarted."""
    package = Path(__file__).parents[1]
    return _digest(package, (file for name in _EMULATORS for file in _files(package / name)), salt=sys.executable)


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    elif path.is_dir():
        for entry in sorted(path.iterdir()):
            if entry.name not in _IGNORED and not entry.name.endswith(_GENERATED):
                yield from _files(entry)


def _digest(root: Path, files: Iterable[Path], *, salt: str) -> str:
    digest = hashlib.sha256(salt.encode())
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
