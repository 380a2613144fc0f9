"""Generates one page per state machine from the edge tables, the status rules and the deployed state machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import yaml

from faultbridge.decide.breaker import cluster_status
from faultbridge.model.edges import CASE_EDGES, NODE_EDGES, Edge
from faultbridge.model.enums import CaseStatus, ClusterStatus, NodeStatus
from infra.docs.markdown import code, page, table
from infra.docs.meanings import meanings

ROOT = Path(__file__).resolve().parents[2]
EXECUTION = ROOT / "infra" / "statemachines" / "replacement.asl.yaml"
START = "[*]"
SUPERSEDED = "superseded"
OTHERWISE = "any other"
FLEET = 4
"""Number of nodes of the sample cluster whose status changes are computed: enough for each threshold."""


def node() -> str:
    """Return the page of the node state machine."""
    everywhere = _from_nearly_everywhere(NODE_EDGES, len(NodeStatus))
    drawn = [edge for edge in NODE_EDGES if edge.on not in everywhere]
    left_out = [f"`{on}` leads to `{target}` from {_list(sources)}." for on, (target, sources) in everywhere.items()]
    return page(
        "Node status",
        "A node has one status. Only `append` changes it, and only along these edges; every other change is refused "
        "with the error `illegal_move`.",
        _statuses("node_status", [one.value for one in NodeStatus]),
        "## Diagram",
        _diagram((edge.source or START, edge.target, "") for edge in drawn),
        "Not drawn, because they start in nearly every status:",
        "\n".join(f"- {text}" for text in left_out),
        "## Every transition",
        _edges(NODE_EDGES),
    )


def case() -> str:
    """Return the page of the case state machine."""
    everywhere = _from_nearly_everywhere(CASE_EDGES, sum(one.live for one in CaseStatus))
    drawn = [edge for edge in CASE_EDGES if edge.on not in everywhere]
    left_out = [f"`{on}` leads to `{target}` from {_list(sources)}." for on, (target, sources) in everywhere.items()]
    return page(
        "Case status",
        "A case collects everything about one fault of one node, from the first actionable fault to closure. A node "
        "has at most one live case. `resolved` and `expired` are final.",
        _statuses("case_status", [one.value for one in CaseStatus]),
        "## Diagram",
        _diagram((edge.source or START, edge.target, "") for edge in drawn),
        "Not drawn, because they start in every live status:",
        "\n".join(f"- {text}" for text in left_out),
        "## Every transition",
        _edges(CASE_EDGES),
    )


def cluster() -> str:
    """Return the page of the cluster status, derived from the rule that computes it."""
    causes = _cluster_changes()
    rows = [(code(a), code(b), "; ".join(sorted(edges))) for (a, b), edges in sorted(causes.items())]
    return page(
        "Cluster status",
        "A cluster's status is computed from the statuses of its nodes after each change of a node. It has no edge "
        "table of its own. This page lists what one change of one node can do to a cluster of "
        f"{FLEET} nodes, derived by running the rule over every combination of node statuses.",
        _statuses("cluster_status", [one.value for one in ClusterStatus]),
        "## Diagram",
        _diagram((a, b, "") for a, b in causes),
        "## Every transition",
        table(["from", "to", "a node changes (examples)"], rows),
    )


def execution() -> str:
    """Return the page of one replacement execution, drawn from its Step Functions definition."""
    definition: dict[str, Any] = yaml.safe_load(EXECUTION.read_text(encoding="utf-8"))
    states: dict[str, dict[str, Any]] = definition["States"]
    rows = [
        (code(name), one["Type"], one.get("TimeoutSeconds", ""), one.get("Comment", "")) for name, one in states.items()
    ]
    edges = [(START, definition["StartAt"], "")]
    edges += [(name, target, on) for name, one in states.items() for target, on in _ways(one)]
    return page(
        "Replacement execution",
        "One Step Functions execution drives one attempt of a case. Its name is `<case>-<attempt>`. Each task runs one "
        "step, and the next state depends only on the step's `outcome`. Every task also retries, and after the last "
        "retry continues at `RecordFailure` (not drawn).",
        "## Diagram",
        _diagram(edge for edge in edges if edge[2] not in {SUPERSEDED, OTHERWISE}),
        f"Not drawn, because every choice has them: `{SUPERSEDED}` leads to `Superseded` (another attempt took over), "
        f"{OTHERWISE} outcome leads to `Stopped`.",
        "## States",
        table(["state", "type", "timeout (s)", "purpose"], rows),
        "## Every transition",
        table(["from", "to", "outcome"], [(code(a), code(b), on or "always") for a, b, on in edges]),
    )


def _from_nearly_everywhere(edges: Iterable[Edge], states: int) -> dict[str, tuple[str, list[str]]]:
    """Return each cause that leads from at least half of the states to one state: its target and sources."""
    found: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        if edge.source is not None:
            found[edge.on].append(edge)
    return {
        on: (group[0].target, [str(edge.source) for edge in group])
        for on, group in found.items()
        if len(group) * 2 >= states and len({edge.target for edge in group}) == 1
    }


def _list(names: Iterable[str]) -> str:
    return ", ".join(code(name) for name in names)


def _statuses(kind: str, values: list[str]) -> str:
    return table(["status", "meaning"], [(code(value), meanings(kind)[value]) for value in values])


def _edges(edges: Iterable[Edge]) -> str:
    rows = [
        (code(edge.source) if edge.source else "new", code(edge.target), edge.on, ", ".join(sorted(edge.actors)))
        for edge in edges
    ]
    return table(["from", "to", "cause", "changed by"], rows)


def _diagram(edges: Iterable[tuple[str, str, str]]) -> str:
    """Return a Mermaid state diagram; edges between the same two states share an arrow."""
    labels: dict[tuple[str, str], list[str]] = defaultdict(list)
    for source, target, label in edges:
        labels[source, target] += [label] if label else []
    lines = [
        f"    {source} --> {target}" + (f": {', '.join(dict.fromkeys(found))}" if found else "")
        for (source, target), found in labels.items()
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _ways(state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for choice in state.get("Choices", []):
        yield choice["Next"], choice["StringEquals"]
    if "Default" in state:
        yield state["Default"], OTHERWISE
    if "Next" in state:
        yield state["Next"], ""
    if state["Type"] in {"Succeed", "Fail"}:
        yield START, ""


def _cluster_changes() -> dict[tuple[str, str], set[str]]:
    """Return each change of a cluster's status with up to three changes of a node that cause it."""
    causes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for others in combinations_with_replacement(NodeStatus, FLEET - 1):
        for edge in NODE_EDGES:
            before = _status_of([*others, *([NodeStatus(edge.source)] if edge.source else [])])
            after = _status_of([*others, NodeStatus(edge.target)])
            if before != after:
                causes[before, after].add(f"`{edge.source or 'new'}` → `{edge.target}`")
    return {change: set(sorted(found)[:3]) for change, found in causes.items()}


def _status_of(nodes: Iterable[NodeStatus]) -> str:
    """Return the status of a cluster with these nodes; healthy and retired nodes are not counted as bad."""
    counted = [one for one in nodes if one is not NodeStatus.RETIRED]
    bad: dict[NodeStatus, int] = {one: counted.count(one) for one in set(counted) if one != NodeStatus.HEALTHY}
    return cluster_status(bad, len(counted)).value
