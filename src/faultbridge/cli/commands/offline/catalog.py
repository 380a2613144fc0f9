"""`faultbridge catalog`: explains fault codes and failure modes, with public recommendations and the action."""

from __future__ import annotations

from typing import Annotated, Any

from faultbridge.cli.commands.options import Format
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, BadParameter, Exit, Text, command
from faultbridge.cli.render.output import Columns, OutputFormat, fields, notice, show, show_one
from faultbridge.decode.data import code_document, load_catalog, row_document
from faultbridge.decode.dcgm.texts import code_of_number
from faultbridge.model.catalog import Catalog, Mode
from faultbridge.model.names import did_you_mean

FAMILIES = ("xid", "sxid", "dcgm", "smi", "agent", "net", "host", "cloud", "train")
MODE = "mode"
LIST_COLUMNS: Columns = fields("CODE, FAILURE MODE, SEVERITY, ACTION, MEANING=name, CONFLICT") | {
    "CONFLICT": lambda one: "sources differ" if one["conflict"] else " "
}
ONE_COLUMNS: Columns = fields(
    "Code, Meaning=name, Failure mode, Work, Faultbridge, Reason, Recommendations, Sources differ=conflict:yes, "
    "Includes=stands_for:list, Kind, Scope, Cleared by=ends_on:list, By detail, Catalog"
) | {
    "Faultbridge": lambda one: f"{one['severity']}, {one['action']}",
    "Recommendations": lambda one: "\n".join(f"{each['source']}: {each['says']}" for each in one["recommendations"]),
    "Kind": lambda one: "event" if one["kind"] == "edge" else "state",
    "By detail": lambda one: "\n".join(f"{row['code']}: {row['severity']}, {row['action']}" for row in one["details"]),
}
MODES_COLUMNS: Columns = fields("FAILURE MODE, WORK, SEVERITY, ACTION, MEANING")
MODE_COLUMNS: Columns = fields(
    "Failure mode, Meaning, Reason, Scope, Component=components:list, Running work=work, Faultbridge, "
    "Cleared by=ends_on:list, Family, Shared failure=domain_role, Explains:list, Can lead to=precursor_of:list, "
    "After a checkpoint, Waits at most, At risk after, Lost after, Source, Codes:list, Own judgment, Catalog"
) | {
    "Faultbridge": lambda one: f"{one['severity']}, {one['action']}",
    "Waits at most": lambda one: _seconds(one["max_wait"]),
    "At risk after": lambda one: _seconds(one["max_age"]),
    "Lost after": lambda one: _seconds(one["lost_after"]),
    "Own judgment": lambda one: "\n".join(
        f"{row['code']}: {row['severity']}, {row['action']}, work {row['work']}: {row['reason']}" for row in one["own"]
    ),
}


@command("catalog", "xid 79", "mode gpu.lost", "dcgm 45", "", "sxid --json")
def explain_code(
    family: Annotated[
        Text,
        Argument(
            "FAMILY|CODE|mode",
            f"A family ({', '.join(FAMILIES)}), a full code (xid.79), or `mode` for the failure modes.",
        ),
    ] = None,
    value: Annotated[
        Text,
        Argument("VALUE", "A number or name in the family: 79, 20034, 45, gpu_lost. Or the name of a mode: gpu.lost."),
    ] = None,
    *,
    output: Format,
) -> None:
    """Explain a fault code: its failure mode, public recommendations, severity, action and reason.

    `catalog mode NAME` explains a failure mode: what is physically wrong, and what it does to running work. Without a
    code or NAME, list the codes of the catalog or of a family, or the modes. Exit code 1: the catalog does not have the
    code or the mode.
    """
    known = load_catalog()
    family, value = (text.lower() if text else None for text in (family, value))
    if family == MODE:
        _explain_mode(value, known, output)
        return
    if family is None or (value is None and family in FAMILIES):
        named = (row for row in known.rows.values() if family is None or row.code.startswith(f"{family}."))
        rows = (row for row in named if ":" not in row.code)
        show((row_document(row, known) for row in rows), LIST_COLUMNS, output)
        return
    document = code_document(_code(family, value))
    show_one(document, ONE_COLUMNS, output)
    code = document["code"]
    if code not in known.rows:
        notice(f"code not in the catalog: {code}; such a fault gets this default{did_you_mean(code, known.rows)}")
        raise Exit(EXIT_NOT_WELL)


def _explain_mode(name: str | None, known: Catalog, output: OutputFormat) -> None:
    if name is None:
        show((_mode_document(one, known) for one in known.modes.values()), MODES_COLUMNS, output)
        return
    if name not in known.modes:
        notice(f"failure mode not in the catalog: {name}{did_you_mean(name, known.modes)}")
        raise Exit(EXIT_NOT_WELL)
    mode = known.modes[name]
    rows = [row for row in known.rows.values() if row.mode == name]
    departing = [row for row in rows if (row.severity, row.action, row.work) != (mode.severity, mode.action, mode.work)]
    codes = {"codes": [row.code for row in rows], "own": [row_document(row, known) for row in departing]}
    show_one(_mode_document(mode, known) | codes, MODE_COLUMNS, output)


def _mode_document(mode: Mode, known: Catalog) -> dict[str, Any]:
    return (
        {"failure_mode": mode.name} | {name: getattr(mode, name) for name in _MODE_FIELDS} | {"catalog": known.version}
    )


_MODE_FIELDS = tuple(name for name in Mode.__annotations__ if name != "name")


def _seconds(seconds: int | None) -> str:
    return "" if seconds is None else f"{seconds} seconds"


def _code(family: str, value: str | None) -> str:
    """Return the catalog code for the two arguments, such as `xid.79` for `xid` and `79`."""
    if value is None:
        if "." not in family:
            raise BadParameter(
                f"unknown family: {family!r}; allowed: {', '.join(FAMILIES)}, or a full code such as xid.79"
            )
        return family
    if family not in FAMILIES:
        raise BadParameter(f"unknown family: {family!r}; allowed: {', '.join(FAMILIES)}")
    if family == "dcgm" and value.isascii() and value.isdigit():
        return code_of_number(int(value))
    number = family in {"xid", "sxid"}
    if number and not (value.isascii() and value.isdigit()):
        raise BadParameter(f"not an {family} number: {value!r}; give a decimal number such as 79")
    return f"{family}.{int(value)}" if number else f"{family}.{value}"
