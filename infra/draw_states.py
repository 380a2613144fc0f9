"""Draw the states of nodes, cases and executions into docs/state-machine.md, from the data that the code runs on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from faultbridge.domain.edges import CASE_EDGES, NODE_EDGES, Edge

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "state-machine.md"
MACHINE = ROOT / "infra" / "statemachines" / "replacement.asl.yaml"


def diagram(edges: Iterable[Edge]) -> str:
    """Draw a table of moves as a Mermaid state diagram; moves between the same two states share an arrow."""
    arrows = dict.fromkeys((edge.source or "[*]", edge.target) for edge in edges)
    lines = [f"    {source} --> {target}" for source, target in arrows]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def table(edges: Iterable[Edge]) -> str:
    """List a table of moves for people: from, to, on, by whom."""
    rows = [(edge.source or "-", edge.target, edge.on, ", ".join(sorted(edge.actors))) for edge in edges]
    return "\n".join(["| from | to | on | by |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


def machine() -> str:
    """Draw the state machine as it is deployed; the way of a caught error is left out, every task has it."""
    definition: dict[str, Any] = yaml.safe_load(MACHINE.read_text(encoding="utf-8"))
    lines = [f"    [*] --> {definition['StartAt']}"]
    for name, state in definition["States"].items():
        lines += [f"    {name} --> {target}{on}" for target, on in _ways(state)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _ways(state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for choice in state.get("Choices", []):
        yield choice["Next"], f": {choice['StringEquals']}"
    if "Default" in state:
        yield state["Default"], ": stopped, failed"
    if "Next" in state:
        yield state["Next"], ""
    if state["Type"] == "Succeed":
        yield "[*]", ""


def drawn(page: str) -> str:
    """Return the page with every block between its marks drawn anew."""
    placement = [edge for edge in NODE_EDGES if edge.on in {"changed without our intent", "node removed"}]
    blocks = {
        "node-diagram": diagram(edge for edge in NODE_EDGES if edge not in placement),
        "node-table": table(NODE_EDGES),
        "case-diagram": diagram(edge for edge in CASE_EDGES if edge.on != "node removed"),
        "case-table": table(CASE_EDGES),
        "execution": machine(),
    }
    for name, block in blocks.items():
        found = re.search(rf"(<!-- drawn: {name} -->\n)(?:.*?\n)??(<!-- end -->)", page, re.DOTALL)
        if found is None:
            message = f"{PAGE.name} has no place for {name}"
            raise ValueError(message)
        page = f"{page[: found.end(1)]}{block}\n{page[found.start(2) :]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
