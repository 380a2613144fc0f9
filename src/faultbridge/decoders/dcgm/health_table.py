"""Converts the table of `dcgmi health -c` to the structure of its JSON output.

Grammar: `| GPU 3 | Memory: Failure |` starts the entry of one watched system (`Memory`) of one device (`GPU 3`). A row
with an empty first cell continues the text of the row above. Newer versions print each level of the tree as a row, with
`->` before its name: `| -> 3 | Failure |`. Source: dcgmi's Health.cpp and DCGM's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_TITLE = "Health Monitor Report"
_ROW = re.compile(r"^\|([^|\n]{0,64})\|([^|\n]{0,256})\|", re.MULTILINE)
_OVERALL = re.compile(
    r"Overall Health(?:: {0,8}| {0,64}\|(?: {0,8}))(Healthy|Warning|Failure|Internal error)", re.IGNORECASE
)
_NESTED = re.compile(r"^\|(?P<indent> {1,16})-> ", re.MULTILINE)
_DEVICE = re.compile(r"(GPU|NvSwitch|CPU|NIC|ConnectX)(?: ID:?)? {0,4}(\d{1,4})$", re.IGNORECASE)
_SYSTEM = re.compile(
    r"([A-Za-z][\w ]{1,40}?)(?: system)?: {0,4}(Healthy|Warning|Failure|Internal error)$", re.IGNORECASE
)


def is_health_table(text: str) -> bool:
    """Return whether a text is the table of `dcgmi health -c`."""
    return _TITLE in text and _OVERALL.search(text) is not None and "|" in text


def report_of_table(text: str) -> Mapping[str, Any] | None:
    """Convert the table of a health report to the structure of its JSON output; None for other text."""
    overall = _OVERALL.search(text)
    if overall is None or not is_health_table(text):
        return None
    report: dict[str, Any] = {"Overall Health": {"value": overall[1].capitalize()}}
    if _NESTED.search(text) is not None:
        return _nested(text) | report
    systems: dict[str, Any] | None = None
    overflow: list[str] = []
    for row in _ROW.finditer(text):
        name, cell = row[1].strip(), row[2].strip()
        device, system = _DEVICE.match(name), _SYSTEM.match(cell)
        if device is not None:
            group = report.setdefault(device[1], {"children": {}})["children"]
            systems = group.setdefault(device[2], {"children": {"Errors": {"children": {}}}})["children"]["Errors"][
                "children"
            ]
        if systems is not None and system is not None:
            overflow = []
            systems[system[1]] = {"value": system[2].capitalize(), "overflow": overflow}
        elif systems is not None and not name and cell:
            overflow.append(cell)
    return report


def _nested(text: str) -> dict[str, Any]:
    report: dict[str, Any] = {}
    # The open levels: the indentation of each, and its children.
    levels: list[tuple[int, dict[str, Any]]] = []
    overflow: list[str] = []
    for row in _ROW.finditer(text):
        name, cell = row[1].strip(), row[2].strip()
        if not name:
            overflow += [cell] if cell else []
            continue
        indent = len(row[1]) - len(row[1].lstrip()) if name.startswith("->") else 0
        while levels and levels[-1][0] >= indent:
            levels.pop()
        overflow = []
        children: dict[str, Any] = {}
        parent = levels[-1][1] if levels else report
        parent[name.removeprefix("->").strip()] = {"value": cell, "overflow": overflow, "children": children}
        levels.append((indent, children))
    return report
