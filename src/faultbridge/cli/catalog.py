"""`faultbridge catalog`: what a code means, what each public source recommends, what we do and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from faultbridge.cli.output import Columns, JsonFlag, JsonlFlag, form_of, show, show_one
from faultbridge.data import catalogue
from faultbridge.decoders.dcgm_codes import code_of_number
from faultbridge.domain.catalogue import Catalogue, Row

EPILOG = "Examples: faultbridge catalog xid 79; faultbridge catalog dcgm 45; faultbridge catalog sxid --json"
FAMILIES = ("xid", "sxid", "dcgm", "smi", "agent", "net", "host", "cloud", "train")
LIST_COLUMNS: Columns = {
    "CODE": lambda one: one["code"],
    "SEVERITY": lambda one: one["severity"],
    "ACTION": lambda one: one["action"],
    "MEANING": lambda one: one["name"],
    "": lambda one: "sources differ" if one["conflict"] else " ",
}
ONE_COLUMNS: Columns = {
    "Code": lambda one: one["code"],
    "Meaning": lambda one: one["name"],
    "Ours": lambda one: f"{one['severity']}, {one['action']}",
    "Why": lambda one: one["reason"],
    "Others": lambda one: "\n".join(f"{told['source']}: {told['says']}" for told in one["recommendations"]),
    "They differ": lambda one: "yes" if one["conflict"] else "no",
    "Counted as": lambda one: one["same_as"] or one["code"],
    "Stands for": lambda one: ", ".join(one["stands_for"]),
    "Kind": lambda one: "a moment" if one["kind"] == "edge" else "a state",
    "Clings to": lambda one: one["scope"],
    "Ends on": lambda one: ", ".join(one["ends_on"]),
    "By detail": lambda one: "\n".join(f"{row['code']}: {row['severity']}, {row['action']}" for row in one["details"]),
    "Catalogue": lambda one: one["catalogue"],
}


def command(
    family: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(FAMILIES)}, or a whole code (xid.79).")
    ] = None,
    value: Annotated[str | None, typer.Argument(help="A number or a name: 79, 20034, 45, gpu_lost.")] = None,
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> None:
    """Say what a code means: each public recommendation, ours and why. Without a code, list them all."""
    form, known = form_of(as_json=as_json, as_jsonl=as_jsonl), catalogue()
    if family is None or (value is None and family in FAMILIES):
        rows = (row for row in known.rows.values() if _listed(row, family))
        show((_document(row, known) for row in rows), LIST_COLUMNS, form)
        return
    row = known.row(_code(family, value))
    details = [_document(one, known) for one in known.rows.values() if one.code.startswith(f"{row.code}:")]
    show_one(_document(row, known) | {"details": details}, ONE_COLUMNS, form)


def _code(family: str, value: str | None) -> str:
    if value is None:
        if "." not in family:
            raise typer.BadParameter(f"{family!r} is neither a code nor one of {', '.join(FAMILIES)}")
        return family
    if family not in FAMILIES:
        raise typer.BadParameter(f"{family!r} is none of {', '.join(FAMILIES)}")
    if family == "dcgm" and value.isascii() and value.isdigit():
        return code_of_number(int(value))
    number = family in {"xid", "sxid"}
    if number and not (value.isascii() and value.isdigit()):
        raise typer.BadParameter(f"{value!r} is no number of an {family}")
    return f"{family}.{int(value)}" if number else f"{family}.{value.lower()}"


def _listed(row: Row, family: str | None) -> bool:
    return ":" not in row.code and (family is None or row.code.startswith(f"{family}."))


def _document(row: Row, known: Catalogue) -> dict[str, Any]:
    return {
        "code": row.code,
        "name": row.name,
        "severity": row.severity,
        "action": row.action,
        "kind": row.kind,
        "scope": row.scope,
        "ends_on": list(row.ends_on),
        "same_as": row.same_as,
        "stands_for": list(row.stands_for),
        "conflict": row.conflict,
        "reason": row.reason,
        "recommendations": [{"source": one.source, "says": one.says} for one in row.recommendations],
        "known": row.code in known.rows,
        "catalogue": known.version,
    }
