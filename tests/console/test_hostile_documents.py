"""Hostile text in every field of every document is shown as text, and keeps the structure of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import asdict

from faultbridge.repair.registry import job_views
from faultbridge.serve.console import facts
from tests.console.all_views import EveryView
from tests.console.sites import HOSTILE, Site

pytestmark = pytest.mark.slow

TIME = re.compile(r"\d{4}-\d\d-\d\dT")
SELECTORS = frozenset({"event_type", "waiting_for", "to", "from", "status", "state", "resolution", "change", "outcome"})
"""Fields that select what a page shows. They are made hostile too, in a run of their own: less is shown then."""

DOCUMENTS = (
    "cluster_document",
    "node_document",
    "shown_case_document",
    "shown_node_document",
    "case_document",
    "job_document",
    "incident_document",
    "entry_document",
)
HARMLESS = frozenset({"details", "summary", "code", "span", "pre", "p", "em", "h2", "h3", "time", "div", "ul", "li"})
"""Elements that a hostile text may add or remove, because it decides which parts of a page are shown."""
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff]")


def poisoned(value: Any, text: str, kept: frozenset[str] = SELECTORS) -> Any:
    """Return a document with a hostile text in place of each text, also of each name of a node or a cluster."""
    if isinstance(value, Struct):
        return type(value)(**poisoned(asdict(value), text, kept))
    if isinstance(value, Mapping):
        return {name: one if name in kept else poisoned(one, text, kept) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return tuple(poisoned(one, text, kept) for one in value)
    return text if isinstance(value, str) and not TIME.match(value) else value


class Skeleton(HTMLParser):
    """The elements of a page, without its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.handlers: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.handlers += [name for name, _ in attrs if name.startswith("on") or name in {"style", "srcdoc"}]


@pytest.fixture(scope="module")
def site() -> EveryView:
    return EveryView()


@pytest.fixture(scope="module")
def expected(site: EveryView) -> dict[str, set[str]]:
    """Return the elements of each view without hostile text."""
    return {name: set(Skeleton(site.get(path).text).tags) for name, path in site.paths.items()}


@pytest.mark.parametrize("kept", [SELECTORS, frozenset[str]()], ids=["all-but-selectors", "all"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_text_in_every_field_of_every_view_stays_text(
    kind: str, kept: frozenset[str], site: EveryView, expected: dict[str, set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = HOSTILE[kind]
    for module, name in (*((facts, name) for name in DOCUMENTS), (job_views, "job_document")):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given, _build=original: poisoned(_build(*given), text, kept))
    for name, path in site.paths.items():
        answer = site.get(path)
        assert answer.status == 200, (name, answer.text[-2000:])
        page = Skeleton(answer.text)
        assert set(page.tags) <= expected[name] | {
            "details",
            "summary",
            "code",
            "span",
            "pre",
            "p",
            "em",
            "h2",
            "h3",
        }, name
        assert page.handlers == []
        assert not UNSAFE.search(answer.text)
        if kind == "script" and name != "fleet":
            assert "&lt;script&gt;alert(1)" in answer.text
        for query in ("format=csv", "format=json"):
            assert site.get(path, query).status == 200


def test_every_text_of_every_document_reaches_the_test(site: EveryView) -> None:
    """Without this, a builder that facts.py calls under a new name would not be made hostile."""
    used = {name for name in vars(facts) if name.endswith("_document")}
    assert used == set(DOCUMENTS)
    assert {name for name in vars(job_views) if name.endswith("_document")} == {"job_document"}


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "-2+3", "\t=1"])
def test_no_cell_of_a_csv_file_is_a_formula(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.fault()
    monkeypatch.setattr(facts, "entry_document", lambda line, _b=facts.entry_document: poisoned(_b(line), text))
    rows = site.get("/clusters/train-a/nodes/n-1", "format=csv").text.splitlines()
    cells = [cell for row in rows[1:] for cell in re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', row)]
    assert cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", '"=', '"\t', "-2"))]
