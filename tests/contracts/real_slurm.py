"""A real Slurm of two nodes on loopback, from Debian's packages; without them the tests that need it are skipped.

Debian 12 has Slurm 22.05, whose slurmrestd cannot change a node. A newer Slurm runs from the root directory of a newer
Debian, which `.ci/run` makes; each command runs there by chroot, in mounts of its own.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import pytest

from faultbridge.adapters.slurm.access import Output
from tests.waiting import BUSY_FACTOR

NEWER = Path(os.environ.get("FAULTBRIDGE_SLURM_ROOT", "/opt/faultbridge/slurm-root"))
"""The root directory of a Debian with a newer Slurm."""

IN_ROOT = (
    'for folder in /proc /dev /tmp; do mount --rbind "$folder" "$0$folder" || exit 99; done; exec chroot "$0" "$@"'
)
REST_PROGRAMS = ("slurmrestd", "setpriv")
NO_USER = "64999"
"""slurmrestd runs neither as root nor as the user of Slurm."""

PROGRAMS = ("munged", "slurmctld", "slurmd", "scontrol", "squeue", "sbatch", "scancel")
SECONDS = 30 * BUSY_FACTOR
CONF = """
ClusterName=contract
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
MpiDefault=none
MailProg=/bin/true
MessageTimeout=2
KillWait=2
ReturnToService=2
SchedulerParameters=sched_interval=1,sched_min_interval=1
NodeName=n1 NodeHostname=n1 NodeAddr=127.0.0.1 Port={first} CPUs=1 RealMemory=100
NodeName=n2 NodeHostname=n2 NodeAddr=127.0.0.1 Port={second} CPUs=1 RealMemory=100
PartitionName=all Nodes=n[1-2] Default=YES State=UP
"""
WITH_TOKENS = """AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key={folder}/jwt.key
"""


class RealSlurm:
    """A running Slurm; `unreachable` makes every command use a controller that does not listen."""

    def __init__(self, folder: Path, root: Path | None = None) -> None:
        self.folder = folder
        self.root = root
        self.unreachable = False
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        self.rest = ""
        self.nowhere = ""
        """The address of its slurmrestd, and one at which nothing listens."""

    def __call__(self, command: Sequence[str]) -> Output:
        """Run a command as on a head node."""
        conf = "nowhere.conf" if self.unreachable else "slurm.conf"
        ran = subprocess.run(
            self.placed(command), env=self.environment(conf), capture_output=True, text=True, check=False
        )
        return Output(ran.returncode, ran.stdout, ran.stderr)

    def placed(self, command: Sequence[str]) -> list[str]:
        """The command as it runs in the root directory of this Slurm."""
        return [*(("unshare", "--mount", "sh", "-c", IN_ROOT, str(self.root)) if self.root else ()), *command]

    def token(self, lifespan: int = 3600) -> str:
        """A new token of root, for so many seconds."""
        answer = self(("scontrol", "token", "username=root", f"lifespan={lifespan}"))
        return answer.stdout.strip().removeprefix("SLURM_JWT=")

    def environment(self, conf: str = "slurm.conf") -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.folder / conf)}

    def submit(self, seconds: int, node: str | None = None) -> str:
        """Submit a job that sleeps and can be requeued; returns its id."""
        place = (f"--nodelist={node}",) if node else ()
        answer = self(("sbatch", "--parsable", "--requeue", "--output=/dev/null", *place, f"--wrap=sleep {seconds}"))
        assert answer.code == 0, answer
        return answer.stdout.strip()

    def job(self, job: str) -> str:
        """The state and the nodes of a job, such as `RUNNING n1`."""
        return self(("squeue", "--noheader", f"--jobs={job}", "--format=%T %N")).stdout.strip()

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for Slurm's own daemons; they have no clock that a test could move."""
        end = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < end, self(("scontrol", "show", "node")).stdout
            time.sleep(0.1)

    @contextmanager
    def rebooted(self, node: str) -> Iterator[None]:
        """Start the slurmd of a node again as after a reboot of its host."""
        with ExitStack() as stack:
            self.daemons[node].terminate()
            self.daemons[node].wait(SECONDS)
            _start(stack, self, ("slurmd", "-D", "-b", "-N", node))
            yield

    def clean(self) -> None:
        """Cancel every job and resume every node."""
        self.cancel_jobs()
        for node in ("n1", "n2"):
            state = self(("scontrol", "show", "node", node)).stdout.partition("State=")[2].split()[0]
            if "DRAIN" in state or "FAIL" in state:
                self(("scontrol", "update", f"NodeName={node}", "State=RESUME"))
        self.until(lambda: self(("sinfo", "--noheader", "--format=%T")).stdout.split() == ["idle"])

    def cancel_jobs(self) -> None:
        """Cancel every job and wait for its end, because its processes outlive the daemons."""
        self.unreachable = False
        self(("scancel", "--user=root"))
        self.until(lambda: not self(("squeue", "--noheader")).stdout.strip())


@contextmanager
def real_slurm(root: Path | None = None, *, rest: bool = False, settings: str = "") -> Iterator[RealSlurm]:
    """Start munged, slurmctld, two slurmd and perhaps slurmrestd; stop them at the end.

    `settings` are further lines of slurm.conf.
    """
    _require(root, rest=rest)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="slurm-", dir="/tmp")))
        slurm = RealSlurm(folder, root)
        _write(slurm, rest=rest, settings=settings)
        munged = ("munged", "--foreground", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key")
        munged += (f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log")
        _start(stack, slurm, (*munged, f"--seed-file={folder}/munge.seed", "--force"))
        slurm.until((folder / "munge.socket").exists)
        _start(stack, slurm, ("slurmctld", "-D", "-c"))
        for node in ("n1", "n2"):
            slurm.daemons[node] = _start(stack, slurm, ("slurmd", "-D", "-N", node))
        slurm.until(lambda: slurm(("sinfo", "--noheader", "--format=%T")).stdout.split() == ["idle"])
        if rest:
            _start_rest(stack, slurm)
        stack.callback(slurm.cancel_jobs)
        yield slurm


@contextmanager
def real_slurmrestd() -> Iterator[RealSlurm]:
    """Start the newer Slurm with its slurmrestd, which can change a node."""
    with real_slurm(NEWER, rest=True) as slurm:
        yield slurm


def _require(root: Path | None, *, rest: bool) -> None:
    if os.geteuid() != 0:
        pytest.skip("no real Slurm here: its daemons must run as root")
    if root is not None and not (root / "usr/sbin/slurmctld").exists():
        pytest.skip(f"no newer Slurm here: {root} has none; .ci/run makes it")
    path = os.pathsep.join(f"{root or ''}{one}" for one in ("/usr/bin", "/usr/sbin", "/usr/local/bin"))
    wanted = (*PROGRAMS, *(REST_PROGRAMS if rest else ()))
    missing = [name for name in wanted if shutil.which(name, path=path) is None]
    libraries = f"{root or ''}/usr/lib".lstrip("/")
    if rest and not any(Path("/").glob(f"{libraries}/*/slurm*/auth_jwt.so")):
        missing.append("auth_jwt.so")
    if missing:
        pytest.skip(f"no real Slurm here: {', '.join(missing)}")


def _start_rest(stack: ExitStack, slurm: RealSlurm) -> None:
    port, nowhere = free_ports(2)
    slurm.rest, slurm.nowhere = (f"http://127.0.0.1:{one}" for one in (port, nowhere))
    plugin = "openapi/slurmctld" if slurm.root else "openapi/v0.0.38"
    command = ("setpriv", f"--reuid={NO_USER}", f"--regid={NO_USER}", "--clear-groups", "/usr/sbin/slurmrestd")
    variables = {"SLURM_JWT": "daemon", "SLURMRESTD_SECURITY": "disable_unshare_sysv,disable_unshare_files"}
    arguments = ("-a", "rest_auth/jwt", "-s", plugin, f"127.0.0.1:{port}")
    _start(stack, slurm, (*command, *arguments), variables)
    slurm.until(lambda: _listens(port))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _write(slurm: RealSlurm, *, rest: bool, settings: str) -> None:
    folder = slurm.folder
    port, first, second, nowhere = free_ports(4)
    ports = {"port": port, "first": first, "second": second}
    for key in ("munge.key", "jwt.key"):
        (folder / key).write_bytes(os.urandom(1024))
        (folder / key).chmod(0o600)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    text = CONF + (WITH_TOKENS if rest else "") + settings
    (folder / "slurm.conf").write_text(text.format(folder=folder, **ports))
    (folder / "nowhere.conf").write_text(text.format(folder=folder, **{**ports, "port": nowhere}))
    if slurm.root:
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
    if rest:
        folder.chmod(0o755)  # slurmrestd runs as another user


def free_ports(number: int) -> list[int]:
    """Ports of the loopback that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in sockets]


def _start(
    stack: ExitStack, slurm: RealSlurm, command: Sequence[str], variables: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[bytes]:
    log = stack.enter_context((slurm.folder / f"{command[0]}-{len(list(slurm.folder.iterdir()))}.log").open("ab"))
    environment = {**slurm.environment(), **variables, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    started = subprocess.Popen(slurm.placed(command), env=environment, stdout=log, stderr=log)
    stack.callback(lambda: (started.terminate(), started.wait(SECONDS)))
    return started
