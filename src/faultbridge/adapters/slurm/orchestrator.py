"""Drain and resume the nodes of a Slurm cluster, and wait for their jobs.

The reason of a drain names Faultbridge, the instance and the case. Faultbridge removes only a drain that names the
instance that backs the node now. A drain by an operator or a health check stays.

Slurm's record of a node may keep its name when the instance behind it changes, and may outlive its instance. So a
record counts only if it belongs to the instance that backs the node, or if its name is an alias of the node or the
name of a node that is registered to keep its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

from faultbridge.adapters.call_results import result_of
from faultbridge.adapters.slurm.operations import SlurmJob, SlurmOperations
from faultbridge.decoders.slurm.node_listing import SlurmNode
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.names import short_name
from faultbridge.ports import CallResult, CheckResult, Clock, ClusterNode, ProviderFailure

OWNER, NO_INSTANCE = "faultbridge", "no-instance"
# The reason that earlier versions gave to a node without an instance.
FORMER_REASON = "faultbridge no instance"
# Slurm expands host lists, and `ALL` names every node, so neither may reach a command.
SLURM_NAME = re.compile(r"(?!(?i:all|nodeset)\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING"})
_LOST = frozenset({"DOWN", "NOT_RESPONDING"})
_UP = frozenset({"ALLOCATED", "IDLE", "MIXED", "COMPLETING"})
_STATES = re.compile(r"[A-Z_]+")
# EC2 names a host after its address, if not after its instance.
_ADDRESS = re.compile(r"ip-(\d+)-(\d+)-(\d+)-(\d+)")


class SlurmOrchestrator:
    """An Orchestrator for Slurm clusters; `connect` returns the operations on the Slurm of a cluster.

    Without an answer of Slurm about the node, a call returns TIMEOUT and neither drains nor resumes a node.
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
        """Resume the node if Faultbridge drained this instance.

        A node that was drained for another reason stays drained; the reason in the result then quotes the reason of the
        drain.
        """
        return result_of(lambda: self._uncordon(node))

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Return TIMEOUT while jobs run on the node; requeue them if the registration allows it.

        No job is requeued after the deadline.
        """
        return result_of(lambda: self._drain(node, deadline))

    def readiness(self, node: ClusterNode) -> CheckResult:
        """Return FAILED if Slurm reports the node as down or not responding, PASSED if it is up, drained or not."""
        _, found, _ = self._find(node)
        states = frozenset(_STATES.findall(found.state.upper())) if found is not None else frozenset()
        if found is not None and ("*" in found.state or not states.isdisjoint(_LOST)):
            return CheckResult.FAILED
        return CheckResult.UNKNOWN if states.isdisjoint(_UP) else CheckResult.PASSED

    def _cordon(self, node: ClusterNode) -> CallResult:
        slurm, found, others = self._find(node)
        if found is None:
            return _not_found(others)
        if _is_drained(found) and not _is_ours(found):
            return CallResult(reason=f"already drained: {found.reason}")
        if not _is_drained(found) or found.reason != reason_of(node):
            slurm.drain(found.name, reason_of(node))
        return CallResult(reason="drained")

    def _uncordon(self, node: ClusterNode) -> CallResult:
        slurm, found, others = self._find(node)
        if found is None:
            return _not_found(others)
        if not _is_drained(found):
            return CallResult(reason="not drained")
        if not _drained_for(found, node):
            return CallResult(reason=f"stays drained: {found.reason or 'no reason was given'}")
        slurm.resume(found.name)
        return CallResult(reason="resumed")

    def _drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        slurm, found, _ = self._find(node)
        if found is None:
            return CallResult(reason="not a node of the cluster: no jobs to drain")
        jobs = slurm.jobs(found.name)
        if node.cluster.slurm_requeue and _is_drained(found) and self._clock.now() < deadline:
            for job in jobs:
                slurm.requeue(job)
        return CallResult(ProviderFailure.TIMEOUT, _text(jobs)) if jobs else CallResult(reason="no job is left")

    def _find(self, node: ClusterNode) -> tuple[SlurmOperations, SlurmNode | None, list[str]]:
        """Return the operations, Slurm's record of the node or None, and the names that belong to other instances.

        Host names are tried first; a record with such a name must belong to the instance that backs the node. A record
        with a name that successors keep counts whichever instance is behind it.
        """
        slurm, others = self._connect(node.cluster), list[str]()
        lasting = _usable((node.node, *node.aliases) if node.keeps_name else node.aliases)
        for name in dict.fromkeys((*_usable(node.host_names), *lasting)):
            found = slurm.node(name)
            if found is not None and (name in lasting or is_instance_of(found, node)):
                return slurm, found, others
            if found is not None:
                others.append(name)
        return slurm, None, others


def reason_of(node: ClusterNode) -> str:
    """Return the reason of a drain: Faultbridge, the instance that backs the node, and the case if there is one."""
    return " ".join((OWNER, node.instance_id or NO_INSTANCE, *((f"case {node.case}",) if node.case else ())))


def is_instance_of(found: SlurmNode, node: ClusterNode) -> bool:
    """Return whether a node record of Slurm is about the instance that backs the node.

    The instance ids are compared; if Slurm's record has none, the names and addresses of the host are compared. Slurm's
    default for the name and the address of the host is the name of the node.
    """
    if found.instance_id:
        return found.instance_id == node.instance_id
    hosts = {short_name(name) for name in node.host_names}
    addresses = {".".join(match.groups()) for match in map(_ADDRESS.fullmatch, hosts) if match}
    host, address = found.host or found.name, found.address or found.name
    return short_name(host) in hosts or address in addresses or short_name(address) in hosts


def _usable(names: Sequence[str]) -> list[str]:
    """Return the names, without and with their domains, that can be the name of one node in Slurm."""
    return [name for name in (*map(short_name, names), *names) if SLURM_NAME.fullmatch(name)]


def _not_found(others: Sequence[str]) -> CallResult:
    absent = "Slurm has no node with a name of this node"
    other = f"{', '.join(others)} in Slurm is another instance"
    return CallResult(ProviderFailure.NOT_FOUND, other if others else absent)


def _is_drained(found: SlurmNode) -> bool:
    return not DRAINED.isdisjoint(_STATES.findall(found.state.upper()))


def _drained_for(found: SlurmNode, node: ClusterNode) -> bool:
    """Return whether Faultbridge drained this instance, for any case."""
    if node.instance_id is None and found.reason == FORMER_REASON:
        return True
    return found.reason.split()[:2] == [OWNER, node.instance_id or NO_INSTANCE]


def _is_ours(found: SlurmNode) -> bool:
    return found.reason.split(" ", 1)[0] == OWNER


def _text(jobs: tuple[SlurmJob, ...]) -> str:
    shown = ", ".join(f"{job.id} ({job.state.lower()})" for job in jobs[:5])
    return f"{len(jobs)} jobs still run: {shown}" if len(jobs) > 1 else f"a job still runs: {shown}"
