"""`faultbridge mapping`: checks, publishes and shows a customer's own fault mappings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from faultbridge.cli.commands.options import Format, read_text
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, Exit, Text, command
from faultbridge.cli.render.output import Columns, OutputFormat, fields, notice, print_line, show, show_one
from faultbridge.cli.render.times import applies_text
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.mapping import parse_extensions
from faultbridge.decode.data.policies import version_of
from faultbridge.model.errors import Misconfigured
from faultbridge.serve.ingest.mappings import MappingStore

PUBLISHED: Columns = fields("Version, Applies") | {"Applies": lambda one: applies_text(one["applies_at"])}
FileArgument = Annotated[str, Argument("FILE", "Mapping file, JSON; - reads standard input.")]


@command("mapping check", "own.json")
def check_mappings(file: FileArgument, *, output: Format) -> None:
    """Validate mappings offline. Exit code 1: the mappings are invalid."""
    mappings = _read_mappings(file, output)
    show_one({"mappings": sorted(mappings)}, {"Valid": lambda one: ", ".join(one["mappings"]) or "no mappings"}, output)


@command("mapping put", "own.json")
def put_mappings(session: ChangingSession, file: FileArgument) -> None:
    """Publish mappings as the current version.

    If the new mappings are invalid, they are rejected, and the current mappings stay.
    """
    mappings = _read_mappings(file, session.output)
    version = version_of(mappings)
    _service(session).put(version, mappings)
    session.show_one({"version": version, "applies_at": session.applies_at()}, PUBLISHED)


@command("mapping show", "> own.json")
def show_mappings(
    session: StackSession,
    version: Annotated[Text, Argument("VERSION", "Version to show. Default: the current version.")] = None,
) -> None:
    """Show the current fault mappings, or those of a version.

    Without --json, the output is in the file format of `mapping put`. With --json, the output also has the version.
    """
    service = _service(session)
    shown, mappings = (version, service.read(version)) if version else service.current()
    if session.prints_document({"version": shown, "mappings": mappings}):
        return
    notice(f"mapping {shown}" if shown else "no mapping was published; only the packaged mappings apply")
    print_line(json.dumps(mappings, indent=2, ensure_ascii=False))


def _service(session: Session) -> Any:  # noqa: ANN401 - imported where it is used
    return MappingStore(session.ports.table, session.ports.clock)


def _read_mappings(file: str, output: OutputFormat) -> dict[str, Mapping[str, Any]]:
    try:
        mappings = parse_extensions(read_text(file))
    except Misconfigured as error:
        if not output.for_people:
            show([{"problem": str(error)}], {}, output)
        notice(f"invalid mappings: {error}")
        raise Exit(EXIT_NOT_WELL) from None
    for code in sorted(one for one in set(_codes(mappings)) if not load_catalog().knows(one)):
        notice(f"code not in the catalog: {code}; such a fault gets the action contact_support")
    return mappings


def _codes(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, one in value.items():
            if name == "code" and isinstance(one, str) and "." in one:
                yield one
            yield from _codes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _codes(one)
