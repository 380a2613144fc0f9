"""The committed reference pages are what the code generates now."""

from __future__ import annotations

import re

import pytest

from faultbridge.decode.data import load_catalog
from infra.docs import state_machines
from infra.docs.cli import COMMANDS
from infra.docs.generate import PAGES, REFERENCE, committed
from infra.docs.meanings import meanings
from infra.docs.metrics import meaning
from infra.docs.openapi import openapi_document

DRAWN = ["node", "case", "cluster", "execution"]
MAX_LINES = 450


def page(name: str) -> str:
    """Return a committed page, which is the generated one."""
    return (REFERENCE / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_committed_page_equals_the_generated_one(name: str) -> None:
    assert page(name) == PAGES[name](), "run make docs-reference"


@pytest.mark.parametrize("name", DRAWN)
def test_generating_twice_gives_the_same_page(name: str) -> None:
    assert getattr(state_machines, name)() == getattr(state_machines, name)()


def test_every_page_of_the_folder_is_generated() -> None:
    assert committed() == {name for name in PAGES if not name.startswith("../")}


def test_the_command_pages_show_every_command() -> None:
    titles = {line for name in PAGES if name.startswith("cli/") for line in page(name).splitlines()}
    assert [name for name in COMMANDS if not titles & {f"# faultbridge {name}", f"## {name}"}] == []


def test_no_reference_page_is_longer_than_a_reader_scrolls() -> None:
    lines = {name: page(name).count("\n") for name in PAGES if name.endswith(".md")}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_the_finder_leads_from_each_code_to_its_row() -> None:
    targets = re.findall(r"\((\w+\.md)#([\w-]+)\)", page("catalog/index.md"))
    codes = [code for code in load_catalog().rows if ":" not in code]
    assert len(targets) == len(codes) > 0
    pages = {name: page(f"catalog/{name}") for name, _ in targets}
    assert [(name, anchor) for name, anchor in targets if f'<a id="{anchor}"></a>' not in pages[name]] == []


def test_each_shape_of_the_http_api_is_on_one_page() -> None:
    text = "\n".join(page(name) for name in PAGES if name.startswith("http-api/"))
    shapes = openapi_document()["components"]["schemas"]
    assert {name: text.count(f"\n## {name}\n") for name in shapes} == dict.fromkeys(shapes, 1)


ARROW = re.compile(r"^    (\S+) --> (\S+?)(?:: .+)?$", re.MULTILINE)


@pytest.mark.parametrize(("name", "edges"), [("node", state_machines.NODE_EDGES), ("case", state_machines.CASE_EDGES)])
def test_every_edge_is_drawn_or_listed_as_not_drawn(name: str, edges: tuple[state_machines.Edge, ...]) -> None:
    text = getattr(state_machines, name)()
    arrows = set(ARROW.findall(text))
    left_out = [line for line in text.splitlines() if line.startswith("- `")]
    for edge in edges:
        drawn = (edge.source or "[*]", edge.target) in arrows
        listed = any(
            f"`{edge.on}` leads to `{edge.target}`" in line and f"`{edge.source}`" in line for line in left_out
        )
        assert drawn or listed, edge


def test_a_metric_without_a_meaning_is_named() -> None:
    with pytest.raises(KeyError, match="NoSuchMetric"):
        meaning("NoSuchMetric")


@pytest.mark.parametrize("kind", ["node_status", "case_status", "cluster_status", "metric"])
def test_a_meaning_is_one_sentence_or_two(kind: str) -> None:
    assert [name for name, text in meanings(kind).items() if not text.endswith(".") or len(text) > 160] == []
