"""A Slurm in memory behind the real orchestrator: nodes under the names of their hosts, and their jobs."""

from __future__ import annotations

from faultbridge.adapters.slurm.rest import SlurmJob
from faultbridge.decode.slurm import SlurmNode
from faultbridge.model.values import replace

REST = "https://slurm.example.internal:6820"


class SlurmInMemory:
    """Implements `SlurmOperations`; a record stays when its host is gone, as in Slurm. `changes` lists every change."""

    def __init__(self) -> None:
        self.nodes: dict[str, SlurmNode] = {}
        self.running: dict[str, list[str]] = {}
        self.changes: list[tuple[str, str]] = []

    def join(self, host: str) -> None:
        """Let the slurmd of a host register, under its short name."""
        name = host.partition(".")[0]
        self.nodes.setdefault(name, SlurmNode(name, "IDLE", host=name, address=name))

    def takes_work(self, host: str) -> bool:
        """Whether Slurm can start jobs on a host."""
        found = self.nodes.get(host.partition(".")[0])
        return found is not None and not {"DRAIN", "FAIL", "DOWN"} & set(found.state.split("+"))

    def node(self, name: str) -> SlurmNode | None:
        return self.nodes.get(name)

    def jobs(self, name: str) -> tuple[SlurmJob, ...]:
        return tuple(SlurmJob(job, "RUNNING") for job in self.running.get(name, ()))

    def addresses(self) -> dict[str, str]:
        return {one.address: name for name, one in self.nodes.items() if one.address}

    def drain(self, name: str, reason: str, state: str = "DRAIN") -> None:
        self.changes.append((state.lower(), name))
        states = dict.fromkeys((*self.nodes[name].state.split("+"), state))
        self.nodes[name] = replace(self.nodes[name], state="+".join(states), reason=reason)

    def reboot(self, name: str, reason: str) -> None:
        self.changes.append(("reboot", name))
        state = f"{self.nodes[name].state}+REBOOT_ISSUED"
        self.nodes[name] = replace(self.nodes[name], state=state, reason=f"{reason} : reboot issued")

    def resume(self, name: str) -> None:
        self.changes.append(("resume", name))
        self.nodes[name] = replace(self.nodes[name], state="IDLE", reason="")

    def requeue(self, job: SlurmJob) -> bool:
        raise NotImplementedError(job)
