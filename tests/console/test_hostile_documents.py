"""Hostile text in every field of every document is shown as text, and keeps the structure of a page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any

import pytest

from faultbridge.console import facts
from tests.console.sites import HOSTILE, Site

TIME = re.compile(r"\d{4}-\d\d-\d\dT")
KEPT = frozenset({"event_type", "waiting_for", "to", "from", "status", "case_id", "node", "cluster"})
"""Fields that select what a page shows, or that are part of an address; other tests make them hostile."""

DOCUMENTS = ("cluster_document", "node_document", "case_document", "entry_document", "page_document")
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff]")


def poisoned(value: Any, text: str) -> Any:
    """Return a document with a hostile text in place of each text."""
    if isinstance(value, Mapping):
        return {name: one if name in KEPT else poisoned(one, text) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [poisoned(one, text) for one in value]
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


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_text_in_every_field_stays_text(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site, text = Site(), HOSTILE[kind]
    case = site.fault()
    paths = ("", "/clusters/train-a", "/clusters/train-a/nodes/n-1", f"/clusters/train-a/cases/{case}")
    expected = {path: set(Skeleton(site.get(path).text).tags) for path in paths}
    for name in DOCUMENTS:
        original = getattr(facts, name)
        monkeypatch.setattr(facts, name, lambda *given, _build=original: poisoned(_build(*given), text))
    for path in paths:
        answer = site.get(path)
        assert answer.status == 200, (path, answer.text[-2000:])
        page = Skeleton(answer.text)
        assert set(page.tags) <= expected[path] | {"details", "summary", "code", "span", "pre"}
        assert page.handlers == []
        assert not UNSAFE.search(answer.text)
        for query in ("format=csv", "format=json"):
            assert site.get(path, query).status == 200


@pytest.mark.parametrize("text", ["=1+1", "@SUM(A1)", "-2+3", "\t=1"])
def test_no_cell_of_a_csv_file_is_a_formula(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site()
    site.fault()
    monkeypatch.setattr(facts, "entry_document", lambda line, _b=facts.entry_document: poisoned(_b(line), text))
    rows = site.get("/clusters/train-a/nodes/n-1", "format=csv").text.splitlines()
    cells = [cell for row in rows[1:] for cell in re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', row)]
    assert cells
    assert not [cell for cell in cells if cell.startswith(("=", "+", "@", '"=', '"\t', "-2"))]
