"""Print timeline entries while they are recorded."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable

import typer

from faultbridge.cli.render.columns import ENTRIES, entry_document
from faultbridge.cli.render.live_output import LiveTable
from faultbridge.cli.render.output import OutputFormat, print_line
from faultbridge.ledger.timeline import Line

WIDTHS = (14, 13, 46)


def check_format(output: OutputFormat, printed_by: str) -> None:
    """Raise BadParameter for `--json`: entries that are still being recorded cannot be one JSON document.

    `printed_by` is the command or option that prints the entries as they are recorded.
    """
    if output is OutputFormat.JSON:
        raise typer.BadParameter(f"conflicting options: {printed_by} with --json; give --jsonl")


def print_as_recorded(lines: Iterable[Line], output: OutputFormat) -> None:
    """Print each entry when it is recorded: a row of a table, or one JSON object per line."""
    wide = output is OutputFormat.WIDE_TABLE
    table = LiveTable(ENTRIES, WIDTHS, terminal=(lambda: None) if wide else None)
    for line in lines:
        document = entry_document(line)
        if output.for_people:
            table.add(document)
        else:
            print_line(json.dumps(document))
        sys.stdout.flush()
