"""A real Slurm of two nodes on loopback, from Debian's packages; without them the tests that need it are skipped."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from faultbridge.adapters.slurm.scontrol import Output
from tests.waiting import BUSY_FACTOR

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
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
MailProg=/bin/true
MessageTimeout=2
KillWait=2
ReturnToService=2
SchedulerParameters=sched_interval=1,sched_min_interval=1
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={first} CPUs=1 RealMemory=100
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={second} CPUs=1 RealMemory=100
PartitionName=all Nodes=n[1-2] Default=YES State=UP
"""


class RealSlurm:
    """A running Slurm; `unreachable` makes every command use a controller that does not listen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unreachable = False

    def __call__(self, command: Sequence[str]) -> Output:
        """Run a command as on a head node."""
        conf = "nowhere.conf" if self.unreachable else "slurm.conf"
        ran = subprocess.run(command, env=self.environment(conf), capture_output=True, text=True, check=False)
        return Output(ran.returncode, ran.stdout, ran.stderr)

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

    def clean(self) -> None:
        """Cancel every job and resume every node."""
        self.unreachable = False
        self(("scancel", "--user=root"))
        self.until(lambda: not self(("squeue", "--noheader")).stdout.strip())
        for node in ("n1", "n2"):
            if "DRAIN" in self(("scontrol", "show", "node", node)).stdout.partition("State=")[2].split()[0]:
                self(("scontrol", "update", f"NodeName={node}", "State=RESUME"))
        self.until(lambda: self(("sinfo", "--noheader", "--format=%T")).stdout.split() == ["idle"])


@contextmanager
def real_slurm() -> Iterator[RealSlurm]:
    """Start munged, slurmctld and two slurmd; stop them at the end."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"no real Slurm here: {', '.join(missing) or 'its daemons must run as root'}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="slurm-")))
        slurm = RealSlurm(folder)
        _write(folder)
        munged = ("munged", "--foreground", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key")
        munged += (f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log")
        _start(stack, slurm, (*munged, f"--seed-file={folder}/munge.seed", "--force"))
        slurm.until((folder / "munge.socket").exists)
        _start(stack, slurm, ("slurmctld", "-D", "-c"))
        for node in ("n1", "n2"):
            _start(stack, slurm, ("slurmd", "-D", "-N", node))
        slurm.until(lambda: slurm(("sinfo", "--noheader", "--format=%T")).stdout.split() == ["idle"])
        yield slurm


def _write(folder: Path) -> None:
    port, first, second, nowhere = free_ports(4)
    ports = {"port": port, "first": first, "second": second}
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    (folder / "slurm.conf").write_text(CONF.format(folder=folder, **ports))
    (folder / "nowhere.conf").write_text(CONF.format(folder=folder, **{**ports, "port": nowhere}))


def free_ports(number: int) -> list[int]:
    """Ports of the loopback that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(number)]
        return [one.getsockname()[1] for one in sockets]


def _start(stack: ExitStack, slurm: RealSlurm, command: Sequence[str]) -> None:
    program = shutil.which(command[0], path=f"{os.environ['PATH']}:/usr/sbin")
    assert program is not None
    log = stack.enter_context((slurm.folder / f"{command[0]}-{len(list(slurm.folder.iterdir()))}.log").open("ab"))
    started = subprocess.Popen((program, *command[1:]), env=slurm.environment(), stdout=log, stderr=log)
    stack.callback(lambda: (started.terminate(), started.wait(SECONDS)))
