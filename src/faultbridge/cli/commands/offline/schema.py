"""`faultbridge schema`: lists and prints event schemas, and validates events. It needs no stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from faultbridge.cli.commands.options import Format, read_bytes
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, BadParameter, Exit, Option, command
from faultbridge.cli.render.output import Columns, fields, notice, print_line, show
from faultbridge.model.errors import Rejected
from faultbridge.model.events.json_schema import EVENT_MODELS, closed_form, open_schema, problems
from faultbridge.model.events.registry import schema_name

LIST_COLUMNS: Columns = fields("EVENT, VERSION, DETAIL-TYPE=detail_type, DESCRIPTION") | {
    "DESCRIPTION": lambda one: one["description"].split("\n")[0]
}
VERDICT_COLUMNS: Columns = fields("EVENT, ID=event_id, VALID:yes, PROBLEMS") | {
    "PROBLEMS": lambda one: "; ".join(one["problems"]),
}
ClosedFlag = Annotated[bool, Option("--closed", "Reject unknown fields and values, as a producer must.")]


@command("schema list", "", "--json")
def list_schemas(*, output: Format) -> None:
    """List the events, with the version and description of their schemas."""
    show((_row(name) for name in EVENT_MODELS), LIST_COLUMNS, output)


@command("schema show", "node-fault-detected@1", "job-change --closed")
def show_schema(
    event: Annotated[
        str, Argument("EVENT@VERSION", "Event name from `faultbridge schema list`, with an optional major version.")
    ],
    closed: ClosedFlag = False,
    *,
    output: Format,
) -> None:
    """Print the JSON Schema of an event. The output is JSON with or without --json."""
    del output
    schema = open_schema(_event_name(event))
    print_line(json.dumps(closed_form(schema) if closed else schema, indent=2))


@command("schema validate", "event.json", "--closed - < event.json")
def validate(
    file: Annotated[str, Argument("FILE", "JSON file with one event or a list of events; - reads standard input.")],
    closed: ClosedFlag = False,
    *,
    output: Format,
) -> None:
    """Validate events: complete EventBridge events, or only their details.

    Without --closed, unknown fields, values and event types are valid, because a consumer must accept them. Exit code
    1: an event is not valid. Exit code 65: the input is not JSON.
    """
    verdicts = [_verdict(event, closed=closed) for event in _events(file)]
    show(verdicts, VERDICT_COLUMNS, output)
    wrong = [verdict for verdict in verdicts if not verdict["valid"]]
    if wrong:
        count = f"{len(wrong)} of {len(verdicts)} events are" if len(verdicts) > 1 else "the event is"
        notice(f"{count} not valid: {wrong[0]['problems'][0]}; `faultbridge schema show` prints the schema")
        raise Exit(EXIT_NOT_WELL)


def _row(name: str) -> dict[str, Any]:
    schema = open_schema(name)
    return {
        "event": name,
        "version": schema["x-schema-version"],
        "detail_type": EVENT_MODELS[name].event_type or None,
        "description": schema["description"],
        "id": schema["$id"],
    }


def _event_name(event: str) -> str:
    name, at, major = event.partition("@")
    if name not in EVENT_MODELS:
        raise BadParameter(f"unknown event: {name!r}; allowed: {', '.join(EVENT_MODELS)}")
    ours = EVENT_MODELS[name].version.partition(".")[0]
    if at and major != ours:
        raise BadParameter(f"unknown version of {name}: {major!r}; allowed: {ours}")
    return name


def _events(file: str) -> Iterator[object]:
    raw = read_bytes(file)
    if not raw.strip():
        raise Rejected("empty", "the input is empty; give an event as JSON")
    try:
        document = json.loads(raw)
    except UnicodeDecodeError:
        raise Rejected("binary", f"not a text file: {file}") from None
    except (ValueError, RecursionError) as error:
        raise Rejected("not_json", f"the input is not JSON: {error}") from error
    yield from document if isinstance(document, list) else [document]


def _verdict(document: object, *, closed: bool) -> dict[str, Any]:
    detail, found = document, []
    if isinstance(document, dict) and "detail" in document and "metadata" not in document:
        detail, found = document["detail"], _envelope_problems(document)
    metadata = detail.get("metadata") if isinstance(detail, dict) else None
    metadata = metadata if isinstance(metadata, dict) else {}
    found += problems(detail, closed=closed)
    return {
        "event": schema_name(metadata) or metadata.get("event_type"),
        "event_id": metadata.get("event_id"),
        "valid": not found,
        "problems": found,
    }


def _envelope_problems(event: dict[str, Any]) -> list[str]:
    detail = event["detail"]
    inner = detail.get("metadata") if isinstance(detail, dict) else None
    if isinstance(inner, dict) and event.get("detail-type") != inner.get("event_type"):
        return [f"/detail-type: {event.get('detail-type')!r} is not metadata.event_type, {inner.get('event_type')!r}"]
    return []
