"""Seats from a file: CSV with a heading line, or one JSON object a line."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import typer

from faultbridge.registry.registration import NewNode

FIELDS = ("node", "instance_id", "group", "instance_type", "domain", "aliases")
_SEPARATOR = ";"


def read_seats(file: str) -> list[NewNode]:
    """Read every node of a file, or of standard input for `-`; a line that is none is wrong usage."""
    text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    rows = _json_lines(text) if text.lstrip().startswith("{") else _csv(text)
    seats = [_seat(row, number) for number, row in rows]
    if not seats:
        raise typer.BadParameter("the file names no node")
    return seats


def _json_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise typer.BadParameter(f"line {number} is no JSON object")
        yield number, row


def _csv(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    reader = csv.DictReader(StringIO(text))
    for row in reader:
        if None in row:
            raise typer.BadParameter(f"line {reader.line_num} has more fields than the heading")
        yield reader.line_num, row


def _seat(row: Mapping[str, Any], number: int) -> NewNode:
    unknown = sorted(set(row) - set(FIELDS))
    if unknown:
        raise typer.BadParameter(f"line {number}: {', '.join(unknown)} is none of {', '.join(FIELDS)}")
    aliases = row.get("aliases") or ()
    listed = aliases.split(_SEPARATOR) if isinstance(aliases, str) else aliases
    texts = {name: row.get(name) or None for name in FIELDS[:-1]}
    if not texts["node"]:
        raise typer.BadParameter(f"line {number} names no node")
    if any(not isinstance(one, str) for one in (*(value for value in texts.values() if value), *listed)):
        raise typer.BadParameter(f"line {number}: every field is text, aliases are a list of texts or joined by `;`")
    name = str(texts.pop("node"))
    aliases = tuple(one.strip() for one in listed if one.strip())
    return NewNode(name, texts["instance_id"], texts["group"], texts["instance_type"], texts["domain"], aliases=aliases)
