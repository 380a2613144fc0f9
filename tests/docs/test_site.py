"""The pages: all in the navigation, links that lead somewhere, and a build that makes no request to another host."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import yaml
from packaging.requirements import Requirement

from infra import docs_versions as versions
from tests.loops import for_each

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
SITE: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def in_navigation(entries: list[Any]) -> list[str]:
    """The pages of a part of the navigation."""
    found: list[str] = []
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            found += in_navigation(value) if isinstance(value, list) else [value]
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    assert sorted(in_navigation(SITE["nav"])) == PAGES


def test_the_site_is_built_strictly_and_without_fonts_of_another_host() -> None:
    assert SITE["strict"] is True
    assert SITE["theme"]["font"] is False
    assert "offline" not in SITE["plugins"]  # it loads a script of another host


@for_each("page", [*PAGES, *(f"../{path.name}" for path in sorted(ROOT.glob("*.md")))])
def test_a_link_within_the_repository_leads_to_a_file(page: str) -> None:
    text = FENCED.sub("", (DOCS / page).read_text(encoding="utf-8"))
    targets = [target.partition("#")[0] for target in LINK.findall(text) if "://" not in target]
    assert [one for one in targets if one and not ((DOCS / page).parent / one).exists()] == []


def test_the_lock_pins_what_the_group_asks_for() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["docs"]
    lock = (ROOT / "requirements" / "docs.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", lock, re.MULTILINE))
    assert [one for one in map(Requirement, asked) if pins.get(one.name, "") not in one.specifier] == []


def hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "infra" / "docs" / "hooks.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Page:
    """A page as MkDocs hands it to a hook."""

    title = "States"

    def __init__(self, path: Path) -> None:
        self.file = self
        self.abs_src_path = str(path)


def test_a_diagram_becomes_a_drawing_and_a_link_out_of_the_folder_a_file_name(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only the environment of the site has the package that draws.
    drawing = SimpleNamespace(svg=lambda: '<svg id="my-svg"></svg>')
    monkeypatch.setitem(sys.modules, "mermaidx", SimpleNamespace(render=lambda _: drawing))
    text = (
        "```mermaid\nstateDiagram-v2\n    [*] --> a\n```\n\n[the rules](../rules/page-on-fatal.yaml) [t](tutorial.md)\n"
    )
    page = hooks().on_page_markdown(text, Page(DOCS / "rules.md"))
    assert re.search(r'<svg id="diagram-\w+">', page)
    assert "mermaid" not in page
    assert "the rules (`rules/page-on-fatal.yaml` in the repository) [t](tutorial.md)" in page


def test_mkdocs_checks_links_and_anchors() -> None:
    links = SITE["validation"]["links"]
    assert {links[kind] for kind in ("not_found", "anchors", "absolute_links", "unrecognized_links")} == {"warn"}


@pytest.mark.parametrize(
    ("body", "loads"),
    [
        ('<a href="https://example.com">x</a>', False),
        ('<link rel="canonical" href="https://example.com">', False),
        ('<script src="https://example.com/a.js"></script>', True),
        ('<img alt="x" src="//example.com/a.png">', True),
        ('<link rel="stylesheet" href="https://example.com/a.css">', True),
        ('<link href="https://example.com/a.png" rel="icon">', True),
        ("<style>@import url(https://example.com/font.css);</style>", True),
    ],
)
def test_a_page_that_loads_something_from_another_host_fails_the_build(body: str, loads: bool, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"<body>{body}</body>", encoding="utf-8")
    assert bool(list(hooks().remote_requests(tmp_path))) is loads


def test_a_style_that_loads_from_another_host_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@import 'https://example.com/font.css';", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"example\.com"):
        hooks().on_post_build(SimpleNamespace(site_dir=str(tmp_path)))


def test_the_newest_version_is_opened_and_the_menu_lists_all(tmp_path: Path) -> None:
    for name in ("1.2", "1.10", "dev", "0.9.1", "assets", "2.0"):
        (tmp_path / name).mkdir()
        if name != "2.0":  # a folder without pages
            (tmp_path / name / "index.html").write_text("<p>", encoding="utf-8")
    assert versions.write_index(tmp_path) == ["1.10", "1.2", "0.9.1", "dev"]
    listed = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [(one["version"], one["aliases"]) for one in listed][:2] == [("1.10", ["latest"]), ("1.2", [])]
    assert "url=1.10/index.html" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_a_folder_without_a_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="docs-version"):
        versions.write_index(tmp_path)


def test_only_a_site_of_one_version_has_the_version_menu(monkeypatch: pytest.MonkeyPatch) -> None:
    class Config:
        extra: ClassVar[dict[str, Any]] = {}

    monkeypatch.delenv("DOCS_VERSION", raising=False)
    assert hooks().on_config(Config()).extra == {}
    monkeypatch.setenv("DOCS_VERSION", "1.0")
    assert hooks().on_config(Config()).extra == {"version": {"provider": "mike"}}
