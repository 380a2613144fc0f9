"""Update the diagrams in docs/state-machine.md from the transition tables and the state machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from faultbridge.model.edges import CASE_EDGES, NODE_EDGES, Edge

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "state-machine.md"
STATE_MACHINE = ROOT / "infra" / "statemachines" / "replacement.asl.yaml"


def diagram(edges: Iterable[Edge]) -> str:
    """Return transitions as a Mermaid state diagram; transitions between the same states share an arrow."""
    arrows = dict.fromkeys((edge.source or "[*]", edge.target) for edge in edges)
    lines = [f"    {source} --> {target}" for source, target in arrows]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def table(edges: Iterable[Edge]) -> str:
    """Return transitions as a Markdown table: from, to, on, by."""
    rows = [(edge.source or "-", edge.target, edge.on, ", ".join(sorted(edge.actors))) for edge in edges]
    return "\n".join(["| from | to | on | by |", "|---|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


def state_machine() -> str:
    """Return the deployed state machine as a Mermaid diagram, without the error path that every task has."""
    definition: dict[str, Any] = yaml.safe_load(STATE_MACHINE.read_text(encoding="utf-8"))
    lines = [f"    [*] --> {definition['StartAt']}"]
    for name, state in definition["States"].items():
        lines += [f"    {name} --> {target}{on}" for target, on in _transitions(state)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def _transitions(state: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the next states of a state, each with its label."""
    for choice in state.get("Choices", []):
        yield choice["Next"], f": {choice['StringEquals']}"
    if "Default" in state:
        yield state["Default"], ": stopped, failed"
    if "Next" in state:
        yield state["Next"], ""
    if state["Type"] == "Succeed":
        yield "[*]", ""


def drawn(page: str) -> str:
    """Return the page with every generated block updated."""
    external = [edge for edge in NODE_EDGES if edge.on in {"instance replaced by another system", "node removed"}]
    blocks = {
        "node-diagram": diagram(edge for edge in NODE_EDGES if edge not in external),
        "node-table": table(NODE_EDGES),
        "case-diagram": diagram(edge for edge in CASE_EDGES if edge.on != "node removed"),
        "case-table": table(CASE_EDGES),
        "execution": state_machine(),
    }
    for name, block in blocks.items():
        found = re.search(rf"(<!-- drawn: {name} -->\n)(?:.*?\n)??(<!-- end -->)", page, re.DOTALL)
        if found is None:
            message = f"no block in {PAGE.name}: {name}; add <!-- drawn: {name} --> and <!-- end -->"
            raise ValueError(message)
        page = f"{page[: found.end(1)]}{block}\n{page[found.start(2) :]}"
    return page


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
