"""Generates the reference of fault codes and failure modes: a finder, one page a family, and a page of the modes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

from faultbridge.decode import data
from faultbridge.model.catalog import Mode
from infra.docs.markdown import code, page, table

FOLDER = "catalog/"
FAMILIES = {
    "xid": "GPU driver: Xid",
    "sxid": "NVSwitch: SXid",
    "dcgm": "NVIDIA DCGM",
    "smi": "nvidia-smi",
    "host": "The host: kernel, memory, disks, heartbeat",
    "net": "Network and InfiniBand",
    "cloud": "The cloud provider",
    "agent": "Agents and tools on the node",
    "train": "Training jobs",
    "gray": "Gray failures",
    "operator": "Operators",
}
INTRODUCTION = """\
The catalog says what each fault code means, how severe it is, and which repair action Faultbridge takes. It lists
every public recommendation beside ours. Severity and action are those of the code's [failure mode](modes.md), unless
the code has a reason for its own. `faultbridge catalog xid 79` prints one row with all details. A policy rule can
replace severity and action for your clusters. A code that the catalog does not contain gets severity `warning` and
action `contact_support`. [How fault codes are judged](../../catalog.md) explains the method.

Select a code to open its row."""
LEGEND = """\
*Ends on* lists what closes the condition. `quiet:600` means no report for 600 seconds. A code with a detail after `:`
is one of several rows of the same code, where the report names a unit, a register or a cause.
[All families](index.md)"""

MODES = """\
A failure mode is what is physically wrong, whichever source and code reports it. It decides severity and action; a row
of the catalog can have its own and says why. `faultbridge catalog mode gpu.lost` prints one mode with all its codes.
[Failure modes](../../catalog.md#failure-modes) explains the columns. [All codes](index.md)"""
GROUPS = {
    "gpu": "GPU",
    "nvlink": "NVLink",
    "fabric": "NVLink fabric and NVSwitch",
    "pcie": "PCIe",
    "driver": "GPU driver",
    "host": "The host",
    "disk": "Disks",
    "storage": "Storage",
    "nic": "Network adapters",
    "ib": "InfiniBand",
    "link": "Network links",
    "efa": "Elastic Fabric Adapter",
    "net": "Network peers",
    "provider": "The cloud provider",
    "operator": "Operators",
    "sensor": "Sensors of the node",
    "app": "Programs",
    "neuron": "AWS Neuron",
}


def pages() -> dict[str, Callable[[], str]]:
    """Return the function that generates each page, by file name: the finder, and each family."""
    made: dict[str, Callable[[], str]] = {f"{FOLDER}index.md": finder, f"{FOLDER}modes.md": modes}
    return made | {f"{FOLDER}{name}.md": partial(family, name) for name in _families()}


def finder() -> str:
    """Return the page that leads from a code to its row."""
    sections = []
    for name, rows in _families().items():
        codes = [row.code for row in rows if ":" not in row.code]
        links = [f"[{_short(one)}]({name}.md#{_anchor(one)})" for one in codes]
        sections += [f"## {FAMILIES[name]}", f"[`{name}`]({name}.md): " + " · ".join(links)]
    known = data.load_catalog()
    size = f"Catalog version: `{known.version}`. Codes: {len(known.rows)}."
    return page("Fault codes", INTRODUCTION, *sections, size)


def family(name: str) -> str:
    """Return the page of all codes of a family."""
    rows = _families()[name]
    plain = [row for row in rows if ":" not in row.code]
    details = [row for row in rows if ":" in row.code]
    sections = [_codes(plain), *(["## By detail", _codes(details)] if details else [])]
    return page(FAMILIES[name], LEGEND, *sections)


def modes() -> str:
    """Return the page of the failure modes."""
    groups: dict[str, list[Mode]] = defaultdict(list)
    for mode in data.failure_modes().values():
        groups[mode.name.partition(".")[0]].append(mode)
    columns = ["failure mode", "meaning", "running work", "severity", "action", "ends on", "explains", "why"]
    sections = [f"## {GROUPS[name]}\n\n" + table(columns, map(_mode, found)) for name, found in groups.items()]
    return page("Failure modes", MODES, *sections)


def _mode(mode: Mode) -> tuple[str, ...]:
    future = [f"Can lead to {', '.join(map(code, mode.precursor_of))}."] if mode.precursor_of else []
    role = f" ({mode.domain_role})" if mode.domain_role else ""
    named = f'<a id="{_anchor(mode.name)}"></a>{code(mode.name)}{role}'
    why = " ".join((mode.reason, *future, mode.source))
    explains = ", ".join(map(code, mode.explains))
    return named, mode.meaning, mode.work, mode.severity, mode.action, ", ".join(mode.ends_on), explains, why


def _families() -> dict[str, list[Any]]:
    """Return the rows of the catalog by family, in the order of their codes."""
    families: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(data.load_catalog().rows.values(), key=lambda row: _order(row.code)):
        families[row.code.partition(".")[0]].append(row)
    return {name: families.pop(name) for name in FAMILIES} | families


def _codes(rows: list[Any]) -> str:
    columns = [
        "code", "meaning", "failure mode", "severity", "action", "scope", "ends on", "public recommendations", "why",
    ]  # fmt: skip
    return table(columns, [_row(row) for row in rows])


def _order(name: str) -> tuple[object, ...]:
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in name.replace(":", ".").split("."))


def _anchor(name: str) -> str:
    return name.replace(".", "-").replace(":", "-")


def _short(name: str) -> str:
    """Return a code without its family, as Markdown text."""
    return name.partition(".")[2].replace("_", "\\_")


def _row(row: Any) -> tuple[str, ...]:  # noqa: ANN401 - a row of the catalog, as above
    others = "; ".join(f"{one.source}: {one.says}" for one in row.recommendations)
    ends = ", ".join(row.ends_on)
    named = f'<a id="{_anchor(row.code)}"></a>{code(row.code)}'
    mode = f"[{code(row.mode)}](modes.md#{_anchor(row.mode)})"
    return named, row.name, mode, row.severity, row.action, row.scope, ends, others, row.reason
