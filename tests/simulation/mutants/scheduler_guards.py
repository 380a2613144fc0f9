"""The guards of Slurm and of HyperPod's repairs, each left out: which record is changed, and which request is sent."""

from __future__ import annotations

from tests.simulation.mutants.planted_bug import PlantedBug, planted

_SLURM, _COMMANDS = "adapters/slurm/orchestrator.py", "adapters/slurm/scontrol.py"
SLURM_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _SLURM,
        "SlurmOrchestrator._find",
        "the record of another instance is drained",
        "(name in lasting or is_instance_of(found, node))",
        "True",
    ),
    planted(
        _SLURM,
        "SlurmOrchestrator._find",
        "a name that a successor keeps comes before the names of its host",
        "dict.fromkeys((*_usable(node.host_names), *lasting))",
        "dict.fromkeys((*lasting, *_usable(node.host_names)))",
    ),
    planted(
        _SLURM,
        "SlurmOrchestrator._find",
        "the name of a former host is looked up",
        "(node.node, *node.aliases) if node.keeps_name else node.aliases",
        "(node.node, *node.aliases)",
    ),
    planted(
        _SLURM,
        "is_instance_of",
        "a record with the id of another instance is drained",
        "if found.instance_id:",
        "if False:",
    ),
    planted(
        _SLURM,
        "SlurmOrchestrator._cordon",
        "the reason of an operator's drain is overwritten",
        "if _is_drained(found) and not _is_ours(found):",
        "if False:",
    ),
    planted(
        _SLURM,
        "SlurmOrchestrator._uncordon",
        "a node that others drained is resumed",
        "if not _drained_for(found, node):",
        "if False:",
    ),
    planted(
        _SLURM,
        "SlurmOrchestrator._drain",
        "jobs are requeued from a node that is not drained",
        "and _is_drained(found) and self._clock",
        "and self._clock",
    ),
    planted(
        _SLURM,
        "_usable",
        "a name that Slurm expands reaches a command",
        "if SLURM_NAME.fullmatch(name)",
        "if True",
    ),
    planted(
        _COMMANDS,
        "Scontrol.node",
        "a failed look-up counts as an absent node",
        "if missing is not None and missing[1] == name:",
        "if answer.code:",
    ),
    planted(
        _COMMANDS,
        "Scontrol.jobs",
        "a list of jobs that cannot be read counts as empty",
        "if answer.code != 0 or None in jobs:",
        "if answer.code != 0:",
    ),
    planted(
        "repair/successor/claim.py",
        "_attach",
        "a successor keeps the host names of its predecessor",
        "host_names=tuple(name for name in hosts if name != state.key.node),",
        "host_names=before.host_names,",
    ),
    planted(
        "repair/successor/claim.py",
        "_aliases_of_former",
        "records under a name of the former host count for its successor",
        "for name in state.placement.host_names)",
        "for name in ())",
    ),
    planted(
        "ports/orchestrator.py",
        "ClusterNode.of_spare",
        "a spare is known to its orchestrator only by its instance",
        "host_names=candidate.host_names, keeps_name",
        "keeps_name",
    ),
)
"""The guards of Slurm, each left out; `tests/adapters/test_slurm.py` and scenarios notice each of them."""

_PROVIDER, _RESTART = "adapters/compute/hyperpod_provider.py", "adapters/compute/hyperpod_restart.py"
_CLUSTER, _VERIFIER = "adapters/compute/hyperpod_cluster.py", "adapters/compute/hyperpod_verifier.py"
HYPERPOD_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        _PROVIDER,
        "HyperPodProvider.replace",
        "a node is replaced beside HyperPod's own recovery",
        "if self._cluster.recovers_nodes():",
        "if False:",
    ),
    planted(
        _PROVIDER,
        "HyperPodProvider.replace",
        "an instance that still exists counts as released",
        "if self.probe(instance_id) is Presence.GONE:",
        "if True:",
    ),
    planted(
        _PROVIDER,
        "HyperPodProvider.candidates",
        "an instance that does not run yet is a successor",
        "if one.running and one.launched_at >= earliest",
        "if one.launched_at >= earliest",
    ),
    planted(
        _RESTART,
        "HyperPodRestarter.restart",
        "a node is rebooted beside HyperPod's own recovery",
        "if self._cluster.recovers_nodes():",
        "if False:",
    ),
    planted(
        _RESTART,
        "HyperPodRestarter.restart",
        "two callers at once reboot a node twice",
        "if not self._requests.record(request):",
        "if self._requests.record(request) and False:",
    ),
    planted(
        _RESTART,
        "HyperPodRestarter.restart",
        "a request that may have been sent is sent again",
        "if answer.failure not in MAYBE_SENT:",
        "if True:",
    ),
    planted(
        _CLUSTER,
        "HyperPodCluster.find_node",
        "a node that is listed but not described is gone",
        "if self._lists(instance_id):",
        "if False:",
    ),
    planted(
        _CLUSTER,
        "HyperPodCluster.replace",
        "an operation in progress is never our own request",
        "return CallResult(ProviderFailure.AMBIGUOUS, answer.reason) if in_use else answer",
        "return answer",
    ),
    planted(
        _VERIFIER,
        "HyperPodVerifier.start",
        "a basic verification starts a deep health check",
        "if self._requests.record(operation) and level >= DEEP:",
        "if self._requests.record(operation):",
    ),
    planted(
        _VERIFIER,
        "HyperPodVerifier.start",
        "a node that does not run is checked",
        "if node is None or status_of(node) != RUNNING:",
        "if node is None:",
    ),
    planted(
        _VERIFIER,
        "HyperPodVerifier._start_deep_check",
        "a check that was refused is waited for",
        "            self._requests.withdraw(operation)\n",
        "            pass\n",
    ),
    planted(
        _VERIFIER,
        "HyperPodVerifier._deep_check",
        "a node that was rebooted during its check has passed",
        "self._requests.advance(operation, Progress.INTERRUPTED if seen else Progress.RECORDED)",
        "pass",
    ),
)
"""The guards of HyperPod, each left out; `tests/adapters/test_hyperpod_repair.py` and scenarios notice each of them."""

OCCUPIED_GUARDS: tuple[PlantedBug, ...] = (
    planted(
        "adapters/compute/hyperpod_status.py",
        "_group_status",
        "a node that HyperPod updates, tests or starts counts as in service",
        "if status_of(node) in OCCUPIED and",
        "if not status_of(node) and",
    ),
    planted(
        "registry/provider_check.py",
        "ProviderCheck._occupied_nodes",
        "a node that was verified through HyperPod's check stays out of the count until the next sync",
        "if one.status is not None and one.status.in_service]",
        "]",
    ),
    planted(
        "repair/cluster_status.py",
        "_occupied_in_service",
        "a node that leaves service while HyperPod tests it is subtracted twice",
        " if node not in out",
        "",
    ),
    planted(
        "repair/cluster_status.py",
        "_next_state",
        "each further node of an update causes an event with the same numbers",
        "if same_number and after == replace(before, target=after.target, occupied=after.occupied):",
        "if after == replace(before, target=after.target):",
    ),
    planted(
        "repair/cluster_status.py",
        "_next_state",
        "an occupied node that was verified reduces the number of verified nodes twice",
        " + sum(occupied.values())",
        "",
    ),
    planted(
        "pipeline/decide/cluster_status.py",
        "cluster_status",
        "a cluster with nodes that run no jobs is healthy",
        " and not occupied:",
        ":",
    ),
)
"""The guards of nodes that HyperPod itself updates or tests; `test_occupied_nodes.py` of the scenarios notices each."""
