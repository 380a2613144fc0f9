"""`faultbridge mechanism`: lists, shows and tests the mechanisms of `faultbridge explain`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from faultbridge.cli.commands.options import Format
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, BadParameter, Exit, Option, command
from faultbridge.cli.render.output import Columns, Document, fields, notice, show, show_one
from faultbridge.explain.verdict.document import broken_cases
from faultbridge.explain.verdict.mechanisms import STATED, Book, Mechanism, extended_book, packaged_book
from faultbridge.model.errors import Misconfigured

MechanismsOption = Annotated[
    Path | None, Option("--mechanisms FOLDER", "Folder of your own mechanisms (*.json), used first.")
]
LISTED: Columns = fields("MECHANISM=name, DOMAIN, OUTLOOK, SUMMARY")
SHOWN: Columns = fields(
    "Mechanism=name, Domain, Summary, Outlook, After progress, After hours, First signs, Causes:lines, "
    "Settled by=settles, Source"
) | {
    "After progress": lambda one: one.get("after_progress"),
    "After hours": lambda one: one.get("after_hours"),
    "First signs": lambda one: "\n".join(f"{name}  {strength}" for name, strength in one["initiators"].items()),
}


@command("mechanism list", "", "--mechanisms own/")
def list_mechanisms(mechanisms: MechanismsOption = None, *, output: Format) -> None:
    """List the mechanisms: the possible causes of a job's failure that `explain` distinguishes."""
    book = book_with(mechanisms)
    show(map(_document, book.mechanisms), LISTED, output)


@command("mechanism show", "gpu_lost")
def show_mechanism(
    name: Annotated[str, Argument("MECHANISM", "Name from `mechanism list`.")],
    mechanisms: MechanismsOption = None,
    *,
    output: Format,
) -> None:
    """Show a failure mechanism: its first signs, its effects, and what would prove or refute it."""
    found = next((one for one in book_with(mechanisms).mechanisms if one.name == name), None)
    if found is None:
        raise BadParameter(f"unknown mechanism: {name!r}; faultbridge mechanism list shows all")
    show_one(_document(found), SHOWN, output)


@command("mechanism check", "own/")
def check_mechanisms(
    folder: Annotated[Path, Argument("FOLDER", "Folder of your own mechanisms (*.json).")],
    *,
    output: Format,
) -> None:
    """Validate your own mechanisms, and run all test cases, also those of the packaged mechanisms.

    Exit code 1: a mechanism is invalid, or a test case fails.
    """
    try:
        book = extended_book(_read_folder(folder))
    except Misconfigured as error:
        notice(str(error))
        raise Exit(EXIT_NOT_WELL) from None
    broken = list(broken_cases(book))
    if not output.for_people:
        show_one({"broken": broken, "mechanisms": len(book.mechanisms), "patterns": len(book.patterns)}, {}, output)
    for one in broken:
        notice(one)
    if broken:
        raise Exit(EXIT_NOT_WELL)
    notice(f"every case passes: {len(book.mechanisms)} mechanisms, {len(book.patterns)} patterns")


def book_with(folder: Path | None) -> Book:
    """Return the packaged mechanisms; those of a customer's folder come first and replace equal names."""
    if folder is None:
        return packaged_book()
    try:
        return extended_book(_read_folder(folder))
    except Misconfigured as error:
        raise BadParameter(str(error)) from None


def _read_folder(folder: Path) -> list[Mapping[str, Any]]:
    files = sorted(folder.glob("*.json"))
    if not files:
        raise Misconfigured(f"no mechanisms in {folder}; expected files *.json")
    documents = []
    for file in files:
        try:
            body = json.loads(file.read_bytes())
            # One mechanism alone is what `mechanism show --json` prints.
            is_mechanism = isinstance(body, dict) and "initiators" in body
            documents.append({"mechanisms": [body]} if is_mechanism else body)
        except (ValueError, RecursionError) as error:
            raise Misconfigured(f"invalid JSON in {file}: {error}") from error
    return documents


def _document(one: Mechanism) -> Document:
    row = msgspec.to_builtins(one)
    row |= {name: text if row[name] else None for name, text in STATED.items()}
    return {name: value for name, value in row.items() if value is not None}
