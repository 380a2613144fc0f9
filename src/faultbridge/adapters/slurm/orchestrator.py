"""Drain and resume the nodes of a Slurm cluster, and wait for their jobs.

The reason of a drain names Faultbridge, the instance and the case, so it ends with the instance: only the drain of the
instance that backs the node is removed. A drain by an operator or a health check stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime

from faultbridge.adapters.call_results import result_of
from faultbridge.adapters.slurm.operations import SlurmJob, SlurmOperations
from faultbridge.decoders.slurm.node_listing import SlurmNode
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.ports import CallResult, Clock, ClusterNode, ProviderFailure

OWNER, NO_INSTANCE = "faultbridge", "no-instance"
# The reason that earlier versions gave to a node without an instance.
FORMER_REASON = "faultbridge no instance"
# Slurm expands host lists, and `ALL` names every node, so neither may reach a command.
SLURM_NAME = re.compile(r"(?!(?i:all|nodeset)\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING"})
_STATES = re.compile(r"[A-Z_]+")
NOT_FOUND = CallResult(ProviderFailure.NOT_FOUND, "Slurm has no node with a name of this node")


class SlurmOrchestrator:
    """An Orchestrator for Slurm clusters; `connect` returns the operations on the Slurm of a cluster.

    A look-up without an answer is unknown: it returns TIMEOUT, and no node is drained or resumed.
    """

    def __init__(self, connect: Callable[[ClusterConfig], SlurmOperations], clock: Clock) -> None:
        self._connect, self._clock = connect, clock

    @property
    def applicable(self) -> bool:
        """Return True: the cluster has an orchestrator."""
        return True

    def cordon(self, node: ClusterNode) -> CallResult:
        """Drain the node in Slurm, so that no new job starts there; a drain by others keeps its reason."""
        return result_of(lambda: self._cordon(node))

    def uncordon(self, node: ClusterNode) -> CallResult:
        """Resume the node if Faultbridge drained this instance; another drain stays, and the reason says so."""
        return result_of(lambda: self._uncordon(node))

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Return TIMEOUT while jobs run on the node; requeue them if the registration allows it.

        No job is requeued after the deadline.
        """
        return result_of(lambda: self._drain(node, deadline))

    def _cordon(self, node: ClusterNode) -> CallResult:
        slurm, found = self._find(node)
        if found is None:
            return NOT_FOUND
        if _is_drained(found) and not _is_ours(found):
            return CallResult(reason=f"already drained: {found.reason}")
        if not _is_drained(found) or found.reason != reason_of(node):
            slurm.drain(found.name, reason_of(node))
        return CallResult(reason="drained")

    def _uncordon(self, node: ClusterNode) -> CallResult:
        slurm, found = self._find(node)
        if found is None:
            return NOT_FOUND
        if not _is_drained(found):
            return CallResult(reason="not drained")
        if not _drained_for(found, node):
            return CallResult(reason=f"stays drained: {found.reason or 'no reason was given'}")
        slurm.resume(found.name)
        return CallResult(reason="resumed")

    def _drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        slurm, found = self._find(node)
        if found is None:
            return CallResult(reason="not a node of the cluster: no jobs to drain")
        jobs = slurm.jobs(found.name)
        if node.cluster.slurm_requeue and _is_drained(found) and self._clock.now() < deadline:
            for job in jobs:
                slurm.requeue(job)
        return CallResult(ProviderFailure.TIMEOUT, _text(jobs)) if jobs else CallResult(reason="no job is left")

    def _find(self, node: ClusterNode) -> tuple[SlurmOperations, SlurmNode | None]:
        """Return the node under the first of its names that Slurm knows."""
        slurm = self._connect(node.cluster)
        found = (slurm.node(name) for name in _names(node))
        return slurm, next((one for one in found if one is not None), None)


def reason_of(node: ClusterNode) -> str:
    """Return the reason of a drain: Faultbridge, the instance that backs the node, and the case if there is one."""
    return " ".join((OWNER, node.instance_id or NO_INSTANCE, *((f"case {node.case}",) if node.case else ())))


def _names(node: ClusterNode) -> Iterator[str]:
    """Yield the names under which Slurm may know a node: its own, its aliases, and their short forms."""
    names = (node.node, *node.aliases)
    for name in dict.fromkeys((*names, *(name.partition(".")[0] for name in names))):
        if SLURM_NAME.fullmatch(name):
            yield name


def _is_drained(found: SlurmNode) -> bool:
    return not DRAINED.isdisjoint(_STATES.findall(found.state.upper()))


def _drained_for(found: SlurmNode, node: ClusterNode) -> bool:
    """Return whether Faultbridge drained this instance, for whichever case."""
    if node.instance_id is None and found.reason == FORMER_REASON:
        return True
    return found.reason.split()[:2] == [OWNER, node.instance_id or NO_INSTANCE]


def _is_ours(found: SlurmNode) -> bool:
    return found.reason.split(" ", 1)[0] == OWNER


def _text(jobs: tuple[SlurmJob, ...]) -> str:
    shown = ", ".join(f"{job.id} ({job.state.lower()})" for job in jobs[:5])
    return f"{len(jobs)} jobs still run: {shown}" if len(jobs) > 1 else f"a job still runs: {shown}"
