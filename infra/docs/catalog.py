"""Generates the reference of fault codes from the packaged fault catalog."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from faultbridge.decode import data
from infra.docs.markdown import code, page, table

FAMILIES = {
    "agent": "Agents and tools on the node",
    "cloud": "The cloud provider",
    "dcgm": "NVIDIA DCGM",
    "host": "The host: kernel, memory, disks, heartbeat",
    "net": "Network and InfiniBand",
    "smi": "nvidia-smi",
    "sxid": "NVSwitch: SXid",
    "train": "Training jobs",
    "xid": "GPU driver: Xid",
}
INTRODUCTION = """\
The catalog says what each fault code means, how severe it is, and which repair action Faultbridge takes. It lists
every public recommendation beside ours. `faultbridge catalog xid 79` prints one row with all details. A policy rule
can replace severity and action for your clusters. A code that the catalog does not contain gets severity `error` and
action `contact_support`.

*Ends on* lists what closes the condition. `quiet:600` means no report for 600 seconds."""


def generate() -> str:
    """Return the reference page of all fault codes."""
    known = data.load_catalog()
    families: dict[str, list[Any]] = defaultdict(list)
    for row in known.rows.values():
        families[row.code.partition(".")[0]].append(row)
    sections = [f"Catalog version: `{known.version}`. Codes: {sum(map(len, families.values()))}."]
    for family, rows in sorted(families.items()):
        sections.append(f"## {FAMILIES.get(family, family)}")
        sections.append(_codes([row for row in rows if ":" not in row.code]))
        details = [row for row in rows if ":" in row.code]
        if details:
            sections.append(f"### {family} by detail")
            sections.append("One code has several rows where the report names a unit, a register or a cause.")
            sections.append(_codes(details))
    return page("Fault codes", INTRODUCTION, *sections)


def _codes(rows: list[Any]) -> str:
    columns = ["code", "meaning", "severity", "action", "scope", "ends on", "public recommendations", "why we differ"]
    return table(columns, [_row(row) for row in sorted(rows, key=lambda one: _order(one.code))])


def _order(name: str) -> tuple[object, ...]:
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in name.replace(":", ".").split("."))


def _row(row: Any) -> tuple[str, ...]:  # noqa: ANN401 - a row of the catalog, as above
    counted = f" (counted as `{row.same_as}`)" if row.same_as else ""
    others = "; ".join(f"{one.source}: {one.says}" for one in row.recommendations)
    ends = ", ".join(row.ends_on)
    return code(row.code) + counted, row.name, row.severity, row.action, row.scope, ends, others, row.reason
