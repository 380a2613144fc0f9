"""`faultbridge mapping`: a customer's own words for faults, as the stack reads foreign records with them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from faultbridge.cli.failures import EXIT_NOT_WELL
from faultbridge.cli.output import JsonFlag, JsonlFlag, form_of, notice, show_one
from faultbridge.cli.session import Session, on_stack
from faultbridge.data import catalogue
from faultbridge.data.mapping import read_own
from faultbridge.data.policies import version_of
from faultbridge.errors import Misconfigured, Rejected

app = typer.Typer(rich_markup_mode=None)

File = Annotated[str, typer.Argument(metavar="FILE", help="A JSON file; - for standard input.")]
VERSION = {"Version": lambda one: one["version"]}


@app.command("check", epilog="Example: faultbridge mapping check own.json")
def check(file: File, as_json: JsonFlag = False, as_jsonl: JsonlFlag = False) -> None:
    """Validate mappings, offline. Exit code 1: what is wrong with them is said."""
    form = form_of(as_json=as_json, as_jsonl=as_jsonl)
    words = _checked(file)
    show_one({"mappings": sorted(words)}, {"Good": lambda one: ", ".join(one["mappings"]) or "no words"}, form)


@app.command("put", epilog="Example: faultbridge mapping put own.json")
@on_stack
def put(session: Session, file: File) -> None:
    """Let mappings hold from now on, in place of those before. Bad ones are refused and the old ones stay."""
    words = _checked(file)
    version = version_of(words)
    _mappings(session).put(version, words)
    session.show_one({"version": version}, VERSION)


@app.command("show", epilog="Example: faultbridge mapping show > own.json")
@on_stack
def show_mapping(
    session: Session,
    version: Annotated[str | None, typer.Argument(metavar="[VERSION]", help="The one that holds if not given.")] = None,
) -> None:
    """Show mappings as the file that they can be put as again."""
    mappings = _mappings(session)
    holds, words = (version, mappings.words(version)) if version else mappings.current()
    if not session.for_people:
        session.show_one({"version": holds, "mappings": words}, {})
        return
    notice(f"mapping {holds}" if holds else "nobody put a mapping: the packaged ones hold alone")
    print(json.dumps(words, indent=2, ensure_ascii=False))


def _mappings(session: Session) -> Any:  # noqa: ANN401 - imported where it is used
    from faultbridge.ingest.mappings import Mappings

    return Mappings(session.ports.table, session.ports.clock)


def _checked(file: str) -> dict[str, Mapping[str, Any]]:
    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        words = read_own(raw.decode())
    except UnicodeDecodeError:
        raise Rejected("binary", f"{file} is not text") from None
    except Misconfigured as error:
        notice(f"the mappings are not good: {error}")
        raise typer.Exit(EXIT_NOT_WELL) from None
    for code in sorted(set(_codes(words)) - catalogue().rows.keys()):
        notice(f"{code} is no code of the catalogue: such a fault asks for support")
    return words


def _codes(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, one in value.items():
            if name == "code" and isinstance(one, str) and "." in one:
                yield one
            yield from _codes(one)
    elif isinstance(value, list):
        for one in value:
            yield from _codes(one)
