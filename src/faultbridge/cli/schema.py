"""`faultbridge schema`: the events' schemas, and whether an event is what they say; no stack needed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import Columns, JsonFlag, JsonlFlag, form_of, notice, show
from faultbridge.errors import Rejected
from faultbridge.events.models import BY_NAME
from faultbridge.events.registry import schema_name
from faultbridge.events.schemas import close, open_schema
from faultbridge.events.validation import problems

STDIN = "-"
LIST_COLUMNS: Columns = {
    "EVENT": lambda one: one["event"],
    "VERSION": lambda one: one["version"],
    "DETAIL-TYPE": lambda one: one["detail_type"],
    "SAYS": lambda one: one["description"].split("\n")[0],
}
VERDICT_COLUMNS: Columns = {
    "EVENT": lambda one: one["event"],
    "ID": lambda one: one["event_id"],
    "VALID": lambda one: "yes" if one["valid"] else "no",
    "PROBLEMS": lambda one: "; ".join(one["problems"]),
}
ClosedFlag = Annotated[
    bool, typer.Option("--closed", help="As a producer: no field that is not described, no word that is not listed.")
]

app = typer.Typer()


@app.command("list", epilog="Example: faultbridge schema list")
def list_(as_json: JsonFlag = False, as_jsonl: JsonlFlag = False) -> None:
    """List the events, their schemas' versions and what each says."""
    show((_row(name) for name in BY_NAME), LIST_COLUMNS, form_of(as_json=as_json, as_jsonl=as_jsonl))


@app.command("show", epilog="Example: faultbridge schema show node-fault-detected@1")
def show_(
    event: Annotated[str, typer.Argument(metavar="EVENT[@1]", help="A name from `faultbridge schema list`.")],
    closed: ClosedFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Print the JSON Schema of an event, of one major version; it is JSON with and without --json."""
    del as_json
    schema = open_schema(_known(event))
    print(json.dumps(close(schema) if closed else schema, indent=2))


@app.command(epilog="Example: faultbridge schema validate event.json")
def validate(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="An event, or a list of events, as JSON.")],
    closed: ClosedFlag = False,
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> None:
    """Validate the detail of an event or a whole EventBridge event. Exit code 1: not valid; 65: not JSON.

    Read open, as a consumer does: fields, words and types that this version does not know are no error.
    """
    form = form_of(as_json=as_json, as_jsonl=as_jsonl)
    verdicts = [_verdict(event, closed=closed) for event in _events(file)]
    show(verdicts, VERDICT_COLUMNS, form)
    wrong = [verdict for verdict in verdicts if not verdict["valid"]]
    if wrong:
        count = f"{len(wrong)} of {len(verdicts)} events are" if len(verdicts) > 1 else "the event is"
        notice(f"{count} not valid: {wrong[0]['problems'][0]} (`faultbridge schema show` prints what is expected)")
        raise typer.Exit(EXIT_NOT_WELL)


def _row(name: str) -> dict[str, Any]:
    schema = open_schema(name)
    return {
        "event": name,
        "version": schema["x-schema-version"],
        "detail_type": BY_NAME[name].event_type or None,
        "description": schema["description"],
        "id": schema["$id"],
    }


def _known(event: str) -> str:
    name, at, major = event.partition("@")
    if name not in BY_NAME:
        raise typer.BadParameter(f"{name!r} is no event; there are {', '.join(BY_NAME)}")
    ours = BY_NAME[name].version.partition(".")[0]
    if at and major != ours:
        raise typer.BadParameter(f"{name} has no version {major!r}; there is {ours}")
    return name


def _events(file: str) -> Iterator[object]:
    raw = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
    if not raw.strip():
        raise Rejected("empty", "there is no event in the input")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Rejected("not_json", f"the input is not JSON: {error}") from error
    yield from document if isinstance(document, list) else [document]


def _verdict(document: object, *, closed: bool) -> dict[str, Any]:
    detail, found = document, []
    if isinstance(document, dict) and "detail" in document and "metadata" not in document:
        detail, found = document["detail"], _of_the_envelope(document)
    metadata = detail.get("metadata") if isinstance(detail, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    found += problems(detail, closed=closed)
    return {
        "event": schema_name(metadata) or metadata.get("event_type"),
        "event_id": metadata.get("event_id"),
        "valid": not found,
        "problems": found,
    }


def _of_the_envelope(event: dict[str, Any]) -> list[str]:
    detail = event["detail"]
    inner = detail.get("metadata") if isinstance(detail, dict) else None
    if isinstance(inner, dict) and event.get("detail-type") != inner.get("event_type"):
        return [f"/detail-type: {event.get('detail-type')!r} is not metadata.event_type, {inner.get('event_type')!r}"]
    return []
