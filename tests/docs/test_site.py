"""The pages: all in the navigation, links that lead somewhere, and a checker that finds what is broken."""

from __future__ import annotations

import importlib.util
import json
import re
import tomllib
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from packaging.requirements import Requirement

from infra import docs_versions as versions
from infra.docs import links

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


@pytest.mark.parametrize("page", [*PAGES, "../README.md", "../CONTRIBUTING.md"])
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


def test_a_diagram_becomes_a_drawing_and_a_link_out_of_the_folder_a_file_name() -> None:
    text = (
        "```mermaid\nstateDiagram-v2\n    [*] --> a\n```\n\n[the rules](../rules/page-on-fatal.yaml) [t](tutorial.md)\n"
    )
    page = hooks().on_page_markdown(text, Page(DOCS / "rules.md"))
    assert "<svg" in page
    assert "mermaid" not in page
    assert "the rules (`rules/page-on-fatal.yaml` in the repository) [t](tutorial.md)" in page


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ('<a href="b.html#here">x</a>', None),
        ('<a href="https://example.com">x</a>', None),
        ('<link rel="canonical" href="https://example.com">', None),
        ('<a href="c.html">x</a>', "broken link c.html"),
        ('<a href="b.html#there">x</a>', "no anchor b.html#there"),
        ('<a href="#there">x</a>', "no anchor #there"),
        ('<script src="https://example.com/a.js"></script>', "from another host"),
        ('<img src="//example.com/a.png">', "from another host"),
        ('<link rel="stylesheet" href="missing.css">', "broken link missing.css"),
        ('<pre class="mermaid">', "was not drawn"),
    ],
)
def test_the_checker_finds_each_kind_of_problem(body: str, problem: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(f"<body>{body}</body>", encoding="utf-8")
    (tmp_path / "b.html").write_text('<p id="here">', encoding="utf-8")
    found = list(links.problems(tmp_path))
    assert len(found) == (0 if problem is None else 1), found
    assert problem is None or problem in found[0]


def test_the_checker_finds_a_style_that_loads_from_another_host(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>", encoding="utf-8")
    (tmp_path / "a.css").write_text("@import url(https://example.com/font.css);", encoding="utf-8")
    assert [problem for problem in links.problems(tmp_path) if "example.com" in problem]


def test_an_empty_site_is_a_problem(tmp_path: Path) -> None:
    assert list(links.problems(tmp_path))


def test_the_newest_version_is_opened_and_the_menu_lists_all(tmp_path: Path) -> None:
    for name in ("1.2", "1.10", "dev", "0.9.1", "assets", "2.0"):
        (tmp_path / name).mkdir()
        if name != "2.0":  # a folder without pages
            (tmp_path / name / "index.html").write_text("<p>", encoding="utf-8")
    assert versions.write_index(tmp_path) == ["1.10", "1.2", "0.9.1", "dev"]
    listed = json.loads((tmp_path / "versions.json").read_text(encoding="utf-8"))
    assert [(one["version"], one["aliases"]) for one in listed][:2] == [("1.10", ["latest"]), ("1.2", [])]
    assert list(links.problems(tmp_path)) == []
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
