"""Generates the reference of record sources from the decoder registry."""

from __future__ import annotations

from pathlib import Path

from faultbridge.decode import registry
from faultbridge.decode.data import sources_with
from infra.docs.markdown import code, page, table

ROOT = Path(__file__).resolve().parents[2]
MAX_EXAMPLE = 90
GUIDES = ROOT / "docs" / "sources"

INTRODUCTION = """\
A source is a format in which a node, a monitoring tool or a cloud service reports faults. `faultbridge decode --source
NAME` and `faultbridge send --source NAME` take these names. `faultbridge decode` recognizes most of them without
`--source`. The guide of a source says how to feed it, what it reports and what it cannot see."""


def generate() -> str:
    """Return the reference page of all record sources."""
    rows = []
    for name in sorted(registry.names()):
        decoder = registry.get(name)
        guide = f"[guide](../sources/{name}.md)" if (GUIDES / f"{name}.md").is_file() else ""
        mappings = "yes" if name in sources_with("mapped") else ""
        rows.append((code(name), decoder.summary, _example(decoder.example), mappings, guide))
    columns = ["source", "input", "example", "uses mappings", ""]
    return page(
        "Record sources",
        INTRODUCTION,
        table(columns, rows),
        "A source that *uses mappings* translates names of alerts or conditions through the packaged mappings and "
        "through your own: see [mappings](../sources/mappings.md).",
    )


def _example(text: str) -> str:
    """Return the first line of an example as inline code."""
    first = (text.strip().splitlines() or [""])[0]
    shown = first if len(first) <= MAX_EXAMPLE else f"{first[: MAX_EXAMPLE - 3]}..."
    return f"`` {shown} ``" if shown else ""
