"""MkDocs hooks: draw state diagrams, name files outside docs/ instead of links to them, show the version menu."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from infra.docs.svg import draw  # noqa: E402 - found only with the repository's root on the path

DIAGRAM = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]\n]+)\]\(((?:\.\./)+[^)\s#]*)(#[^)\s]*)?\)")


def on_config(config: Any, **_: Any) -> Any:  # noqa: ANN401 - MkDocs is not installed where types are checked
    """Show the version menu in a site that is built as one of several versions (make docs-version)."""
    if os.environ.get("DOCS_VERSION"):
        config.extra["version"] = {"provider": "mike"}
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:  # noqa: ANN401 - MkDocs is not installed where types are checked
    """Replace diagrams by SVG, and links to files of the repository outside docs/ by the file's name."""
    source = Path(page.file.abs_src_path)
    drawn = DIAGRAM.sub(lambda found: f"\n{draw(found[1], page.title or source.stem)}\n", markdown)
    return LINK.sub(lambda found: _inside(found, source), drawn)


def _inside(link: re.Match[str], source: Path) -> str:
    target = (source.parent / link[2]).resolve()
    if target.is_relative_to(ROOT / "docs") or not target.exists():
        return link[0]
    return f"{link[1].strip('`')} (`{target.relative_to(ROOT).as_posix()}` in the repository)"
