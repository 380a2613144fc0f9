"""Checks the built site: every link and anchor exists, and no page makes a request to another host.

python -m infra.docs.links FOLDER    exit 1 and one line per problem
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

LOADED = {**dict.fromkeys(("script", "img", "iframe", "source", "video", "audio"), "src"), "link": "href"}
"""Elements whose address a browser requests without a click."""
NOT_LOADED = {"canonical", "next", "prev", "alternate"}
REMOTE_STYLE = re.compile(r"(?:@import\s+|url\()['\"]?((?:https?:)?//[^'\")\s]+)")


@dataclass
class Page:
    """The links, the loaded addresses and the anchors of one HTML page."""

    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    diagrams_left: int = 0


class _Reader(HTMLParser):
    """Collects the addresses of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the addresses and anchors of one element."""
        given = {name: value or "" for name, value in attrs}
        self.page.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.page.diagrams_left += "mermaid" in given.get("class", "").split()
        if tag == "a" and "href" in given:
            self.page.links.append(given["href"])
        elif tag in LOADED and LOADED[tag] in given and given.get("rel") not in NOT_LOADED:
            self.page.loaded.append(given[LOADED[tag]])


def problems(site: Path) -> Iterator[str]:
    """Yield one line for each broken link, missing anchor and request to another host."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"no page in {site}: run make docs"
    for path, page in pages.items():
        name = path.relative_to(site)
        if page.diagrams_left:
            yield f"{name}: a diagram was not drawn: use a stateDiagram-v2 with arrows only"
        for address in page.loaded:
            if _remote(address):
                yield f"{name}: loads {address} from another host"
            else:
                yield from _broken(address, path, pages, name)
        for address in page.links:
            if not _remote(address) and not address.startswith(("mailto:", "data:", "javascript:")):
                yield from _broken(address, path, pages, name)
    for path in sorted(site.rglob("*.css")):
        for found in REMOTE_STYLE.finditer(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads {found[1]} from another host"


def _read(path: Path) -> Page:
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def _remote(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in {"http", "https"}


def _broken(address: str, path: Path, pages: dict[Path, Page], name: Path) -> Iterator[str]:
    if name.name == "404.html":
        return  # its addresses are absolute: a server shows it at any depth
    target, anchor = urldefrag(address)
    file = (path.parent / unquote(target)).resolve() if target else path
    if file.is_dir():
        file /= "index.html"
    if not file.exists():
        yield f"{name}: broken link {address}"
    elif anchor and file in pages and unquote(anchor) not in pages[file].anchors:
        yield f"{name}: no anchor {address}"


def main(arguments: list[str]) -> int:
    """Print the problems of a built site; return the exit code."""
    found = list(problems(Path(arguments[0]).resolve()))
    sys.stdout.writelines(f"{problem}\n" for problem in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
