"""MkDocs hooks: draw diagrams, name files outside docs/ instead of links to them, show the version menu.

`on_post_build` fails the build when a page would make a request to another host. MkDocs itself checks links and
anchors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

ROOT = Path(__file__).resolve().parents[2]
DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]\n]+)\]\(((?:\.\./)+[^)\s#]*)(#[^)\s]*)?\)")
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\ssrc=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|<link\b(?=[^>]*\brel=["']?(?:stylesheet|icon|preload|preconnect))[^>]*\shref=["']?((?:https?:)?//[^"'\s>]+)"""
    r"""|(?:@import\s+|url\()['"]?((?:https?:)?//[^'")\s]+)"""
)
"""Addresses that a browser requests without a click: elements of a page, and styles."""


def on_config(config: Any, **_: Any) -> Any:  # noqa: ANN401 - MkDocs is not installed where types are checked
    """Show the version menu in a site that is built as one of several versions (make docs-version)."""
    if os.environ.get("DOCS_VERSION"):
        config.extra["version"] = {"provider": "mike"}
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # noqa: ANN401 - as above
    """Replace diagrams by SVG, and links to files of the repository outside docs/ by the file's name."""
    source = Path(page.file.abs_src_path)
    drawn = DIAGRAM.sub(lambda found: _draw(found[1], page.title or source.stem), markdown)
    return LINK.sub(lambda found: _inside(found, source), drawn)


def on_post_build(config: Any, **_: Any) -> None:  # noqa: ANN401 - as above
    """Fail if a page or a style of the built site loads something from another host."""
    if found := list(remote_requests(Path(config.site_dir))):
        raise SystemExit("\n".join(found))


def remote_requests(site: Path) -> Iterator[str]:
    """Yield one line for each address of another host that a page or a style loads."""
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for found in LOADED.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {found[1] or found[2] or found[3]} from another host"


def _draw(diagram: str, title: str) -> str:
    """Return the SVG that Mermaid draws; the ids in it are unique, because one page may have several diagrams."""
    svg: str = import_module("mermaidx").render(diagram).svg()
    name = f"diagram-{crc32(diagram.encode()):x}"
    return f'\n<div class="diagram" role="img" aria-label="{title}">{svg.replace("my-svg", name)}</div>\n'


def _inside(link: re.Match[str], source: Path) -> str:
    target = (source.parent / link[2]).resolve()
    if target.is_relative_to(ROOT / "docs") or not target.exists():
        return link[0]
    return f"{link[1].strip('`')} (`{target.relative_to(ROOT).as_posix()}` in the repository)"
