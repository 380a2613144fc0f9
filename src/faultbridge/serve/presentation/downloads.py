"""Downloads: the entries of a page as CSV that is safe to open in a spreadsheet program."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from faultbridge.model.safe_text import visible
from faultbridge.model.times import to_text
from faultbridge.serve.presentation.entry_rows import EntryRow

COLUMNS = ("occurred_at", "stream", "epoch", "sequence", "event_type", "what", "why", "late", "event_id", "hash")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def entries_csv(rows: Iterable[EntryRow]) -> str:
    """Return entries as CSV with a header line; no cell starts a formula or has control characters."""
    output = io.StringIO()
    writer = csv.writer(output)
    writer.writerow(COLUMNS)
    for row in rows:
        cells = (to_text(row.at), row.stream, row.epoch, row.sequence, row.event_type, row.what, row.why,
                 str(row.late).lower(), row.event_id, row.hash)  # fmt: skip
        writer.writerow([_cell(str(one)) for one in cells])
    return output.getvalue()


def _cell(text: str) -> str:
    """Return the text of a cell; an apostrophe precedes text that a spreadsheet would run as a formula."""
    shown = visible(text)
    return f"'{shown}" if shown.startswith(_FORMULAS) else shown
