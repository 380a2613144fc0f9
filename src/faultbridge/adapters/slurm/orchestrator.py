"""Drain and resume the nodes of a Slurm cluster, and wait for their jobs.

When Faultbridge drains a node, the reason names Faultbridge, the instance and the case. Faultbridge resumes a node only
if the reason names the instance that backs the node now. A drain by an operator or a health check stays.

AWS ParallelCluster terminates the instance of each node in the state DRAIN or DOWN. Faultbridge uses FAIL there, which
also keeps new jobs off a node and lets running jobs end; ParallelCluster ends it with the instance.

Slurm's record of a node may keep its name when another instance backs the node, and may remain after its instance is
gone; `_find` returns only a usable record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from faultbridge.adapters.call_results import errors_become_results
from faultbridge.adapters.slurm.access import SlurmOperations
from faultbridge.adapters.slurm.rest import SlurmJob
from faultbridge.decode.slurm import SlurmNode
from faultbridge.model.cluster.config import PARALLEL_CLUSTER, PCS, ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.names import short_name
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.record.ports.presence import CheckResult
from faultbridge.record.ports.table import Clock

OWNER, NO_INSTANCE = "faultbridge", "no-instance"
# Slurm expands host lists, and `ALL` names every node, so neither may reach a command.
SLURM_NAME = re.compile(r"(?!(?i:all|nodeset)\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DRAINED = frozenset({"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING"})
_STARTING_OR_ENDING = frozenset({"POWERING_UP", "POWERED_DOWN", "POWERING_DOWN", "DOWN"})
NAMED_BY_AWS = frozenset({PARALLEL_CLUSTER, PCS})
"""The providers whose nodes have names of their own in Slurm, whichever instance is behind them."""

_LOST = frozenset({"DOWN", "NOT_RESPONDING"})
_UP = frozenset({"ALLOCATED", "IDLE", "MIXED", "COMPLETING"})
_STATES = re.compile(r"[A-Z_]+")
# EC2 names a host after its address, if not after its instance.
_ADDRESS = re.compile(r"ip-(\d+)-(\d+)-(\d+)-(\d+)")


class SlurmOrchestrator:
    """An Orchestrator for Slurm clusters; `connect` returns the Slurm operations of a cluster.

    Without a usable answer of Slurm, calls return TIMEOUT, and `readiness` raises Transient. `cordon` and `uncordon`
    return NOT_FOUND if Slurm has no usable record of the node.
    """

    applicable = True

    def __init__(self, connect: Callable[[ClusterConfig], SlurmOperations], clock: Clock) -> None:
        self._connect, self._clock = connect, clock

    @errors_become_results()
    def cordon(self, node: ClusterNode) -> CallResult:
        """Drain the node; a drain by another stays, and one of ours gets the present instance and case."""
        slurm, found, others = self._find(node)
        if found is None:
            return _not_found(others)
        ends_with_instance = node.cluster.provider == PARALLEL_CLUSTER
        if ends_with_instance and not _STARTING_OR_ENDING.isdisjoint(states_of(found)):
            # FAIL would requeue the job for which Slurm starts the node, and ends when the new instance is up.
            return CallResult(ProviderFailure.NOT_FOUND, f"Slurm starts or ends {found.name}: {found.state}")
        if _is_drained(found) and found.reason.split(" ", 1)[0] != OWNER:
            return CallResult(reason=f"already drained: {found.reason}")
        if not _is_drained(found) or found.reason != reason_of(node):
            slurm.drain(found.name, reason_of(node), "FAIL" if ends_with_instance else "DRAIN")
        return CallResult(reason="drained")

    def discourage(self, node: ClusterNode) -> CallResult:  # noqa: ARG002 - the port's signature
        """Do nothing: Slurm has no preference that prevents no job."""
        return CallResult(reason="not applicable: Slurm cannot prefer other nodes")

    @errors_become_results()
    def uncordon(self, node: ClusterNode) -> CallResult:
        """Resume the node if its drain names Faultbridge and the present instance; else it stays drained."""
        slurm, found, others = self._find(node)
        if found is None:
            return _not_found(others)
        if not _is_drained(found):
            return CallResult(reason="not drained")
        if found.reason.split()[:2] != [OWNER, node.instance_id or NO_INSTANCE]:
            return CallResult(reason=f"stays drained: {found.reason or 'no reason was given'}")
        slurm.resume(found.name)
        return CallResult(reason="resumed")

    @errors_become_results()
    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Requeue the jobs of the node if the cluster allows it; returns TIMEOUT while jobs run on the node.

        Jobs are requeued only if the cluster is registered with `slurm_requeue`, the deadline has not passed, and the
        node is drained in Slurm. The result is still TIMEOUT in the call that requeues jobs. A node of which Slurm has
        no usable record counts as drained.
        """
        slurm, found, _ = self._find(node)
        if found is None:
            return CallResult(reason="not a node of the cluster: no jobs to drain")
        jobs = slurm.jobs(found.name)
        if node.cluster.slurm_requeue and _is_drained(found) and self._clock.now() < deadline:
            for job in jobs:
                slurm.requeue(job)
        return _work(jobs)

    @errors_become_results()
    def idle(self, node: ClusterNode) -> CallResult:
        """Return TIMEOUT while jobs run on the node. No job is requeued."""
        slurm, found, _ = self._find(node)
        if found is None:
            return CallResult(reason="not a node of the cluster: no jobs run there")
        return _work(slurm.jobs(found.name))

    def readiness(self, node: ClusterNode) -> CheckResult:
        """Return FAILED if Slurm reports the node as down or not responding, PASSED if it is up.

        A drained node can be up. In every other state, and without a record of the node, the result is UNKNOWN.
        """
        _, found, _ = self._find(node)
        states = states_of(found) if found is not None else frozenset()
        if found is not None and ("*" in found.state or not states.isdisjoint(_LOST)):
            return CheckResult.FAILED
        return CheckResult.UNKNOWN if states.isdisjoint(_UP) else CheckResult.PASSED

    def _find(self, node: ClusterNode) -> tuple[SlurmOperations, SlurmNode | None, list[str]]:
        """Return the Slurm operations, Slurm's record of the node, and the names of unusable records.

        The names are tried in this order, and the first usable record is returned, or None if there is none:

        1. Host names. Slurm's record is usable only if it belongs to the instance that backs the node.
        2. The name of the node, if the node is registered to keep its name, and the aliases of the node. Slurm's record
           is usable for any instance. This rule also applies to a host name that is one of these names.
        3. The name at the address of the host, where AWS names the nodes and not their hosts.
        """
        slurm, others = self._connect(node.cluster), list[str]()
        lasting = _usable((node.node, *node.aliases) if node.keeps_name else node.aliases)
        for name in dict.fromkeys((*_usable(node.host_names), *lasting)):
            found = slurm.node(name)
            if found is not None and (name in lasting or is_instance_of(found, node)):
                return slurm, found, others
            if found is not None:
                others.append(name)
        return slurm, self._at_address(slurm, node) if node.cluster.provider in NAMED_BY_AWS else None, others

    def _at_address(self, slurm: SlurmOperations, node: ClusterNode) -> SlurmNode | None:
        names, hosts = slurm.addresses(), {short_name(name) for name in node.host_names}
        at = next((names[one] for one in (*_addresses(hosts), *sorted(hosts)) if one in names), None)
        found = slurm.node(at) if at is not None else None
        return found if found is not None and is_instance_of(found, node) else None


def reason_of(node: ClusterNode) -> str:
    """Return the reason of a drain, which names Faultbridge, the instance and, if there is one, the case."""
    return " ".join((OWNER, node.instance_id or NO_INSTANCE, *((f"case {node.case}",) if node.case else ())))


def is_instance_of(found: SlurmNode, node: ClusterNode) -> bool:
    """Return whether a record is of the node's instance: by id, else by host name and address."""
    if found.instance_id:
        return found.instance_id == node.instance_id
    hosts = {short_name(name) for name in node.host_names}
    host, address = found.host or found.name, found.address or found.name
    return short_name(host) in hosts or address in _addresses(hosts) or short_name(address) in hosts


def _addresses(hosts: Iterable[str]) -> set[str]:
    return {".".join(match.groups()) for match in map(_ADDRESS.fullmatch, hosts) if match}


def states_of(found: SlurmNode) -> frozenset[str]:
    """Return the state of a node and its flags, as words without marks."""
    return frozenset(_STATES.findall(found.state.upper()))


def _usable(names: Sequence[str]) -> list[str]:
    """Return the names that Slurm accepts for one node, first all without their DNS domain."""
    return [name for name in (*map(short_name, names), *names) if SLURM_NAME.fullmatch(name)]


def _not_found(others: Sequence[str]) -> CallResult:
    absent = "Slurm has no node with a name of this node"
    other = f"{', '.join(others)} in Slurm is another instance"
    return CallResult(ProviderFailure.NOT_FOUND, other if others else absent)


def _is_drained(found: SlurmNode) -> bool:
    return not DRAINED.isdisjoint(states_of(found))


def _work(jobs: tuple[SlurmJob, ...]) -> CallResult:
    if not jobs:
        return CallResult(reason="no job is left")
    shown = ", ".join(f"{job.id} ({job.state.lower()})" for job in jobs[:5])
    text = f"{len(jobs)} jobs still run: {shown}" if len(jobs) > 1 else f"a job still runs: {shown}"
    return CallResult(ProviderFailure.TIMEOUT, text)
