"""The committed reference pages are what the code generates now."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from infra.docs import state_machines, svg
from infra.docs.cli import COMMANDS
from infra.docs.generate import PAGES, REFERENCE
from infra.docs.meanings import meanings
from infra.docs.metrics import meaning

DRAWN = ["node", "case", "cluster", "execution"]


@pytest.mark.parametrize("name", PAGES)
def test_a_committed_page_equals_the_generated_one(name: str) -> None:
    assert (REFERENCE / name).read_text(encoding="utf-8") == PAGES[name](), "run make docs-reference"


@pytest.mark.parametrize("name", DRAWN)
def test_generating_twice_gives_the_same_page(name: str) -> None:
    assert getattr(state_machines, name)() == getattr(state_machines, name)()


def test_every_page_of_the_folder_is_generated() -> None:
    assert {path.name for path in REFERENCE.iterdir()} == {name for name in PAGES if ".." not in name}


def test_the_command_page_shows_every_command() -> None:
    page = PAGES["cli.md"]()
    assert [name for name in COMMANDS if f"\n## {name}\n" not in page] == []


def diagram(name: str) -> str:
    found = re.search(r"```mermaid\n(.*?)```", getattr(state_machines, name)(), re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize(("name", "edges"), [("node", state_machines.NODE_EDGES), ("case", state_machines.CASE_EDGES)])
def test_every_edge_is_drawn_or_listed_as_not_drawn(name: str, edges: tuple[state_machines.Edge, ...]) -> None:
    arrows = {(source, target) for source, target, _ in svg.parse(diagram(name))}
    page = getattr(state_machines, name)()
    left_out = [line for line in page.splitlines() if line.startswith("- `")]
    for edge in edges:
        drawn = (edge.source or "[*]", edge.target) in arrows
        listed = any(
            f"`{edge.on}` leads to `{edge.target}`" in line and f"`{edge.source}`" in line for line in left_out
        )
        assert drawn or listed, edge


@pytest.mark.parametrize("name", DRAWN)
def test_a_drawing_names_every_state_and_needs_no_request(name: str) -> None:
    text = diagram(name)
    drawn = svg.draw(text, name)
    states = {state for source, target, _ in svg.parse(text) for state in (source, target)} - {svg.START, svg.END}
    assert [state for state in states if f">{state}</text>" not in drawn] == []
    assert "href" not in drawn
    assert "<script" not in drawn
    assert drawn == svg.draw(text, name)


@pytest.mark.parametrize("name", DRAWN)
def test_states_of_one_layer_do_not_overlap(name: str) -> None:
    boxes = re.findall(r'<rect class="state" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"', svg.draw(diagram(name), name))
    rows: dict[str, list[tuple[float, float]]] = {}
    for x, y, width in boxes:
        rows.setdefault(y, []).append((float(x), float(x) + float(width)))
    for row in map(sorted, rows.values()):
        assert all(left[1] < right[0] for left, right in pairwise(row))


@pytest.mark.parametrize("text", ["flowchart TD\n  a --> b", "stateDiagram-v2\n  state a {"])
def test_an_unsupported_diagram_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="unsupported"):
        svg.draw(text, "x")


def test_a_metric_without_a_meaning_is_named() -> None:
    with pytest.raises(KeyError, match="NoSuchMetric"):
        meaning("NoSuchMetric")


@pytest.mark.parametrize("kind", ["node_status", "case_status", "cluster_status", "metric"])
def test_a_meaning_is_one_sentence_or_two(kind: str) -> None:
    assert [name for name, text in meanings(kind).items() if not text.endswith(".") or len(text) > 160] == []
