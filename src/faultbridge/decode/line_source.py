"""Log sources as data: each line gives a fault by the first row of texts that it matches.

A file of `data/log_sources` has the `summary` of a source, the pattern `framing` that recognizes a body, and the rows.
`{group}` in the code of a row is the value of a group. The groups `pci`, `uuid`, `serial`, `link`, `index` and `name`
identify the component, `node` names the node, `number` only completes the code, and other groups are attributes. A row
that is `named` is about the GPU that the line names in any place. A row that is `weaker` gives no fault if another row
gives one for the same component of the same log. A body is of a source that is `of_any` only if no other one fits. The
rows of `nvml-status` are tried for the lines of each other source too, after its own rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from faultbridge.decode.data import packaged_json
from faultbridge.decode.data.patterns import Pattern, texts_of, with_fragments
from faultbridge.decode.frames.chain import lines_of
from faultbridge.decode.frames.clock import MONTHS, iso_instant, yearless_time
from faultbridge.decode.frames.decoder import Decoded, Decoder, Hints, evidence, truncate
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.instance_type import gpu_named_in
from faultbridge.decode.frames.line import Item, Line
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Fault
from faultbridge.model.values import replace

_TIME = re.compile(
    r"(?:\[?(\d{4})[/-](\d\d)[/-](\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\]?"
    r"|[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d)(?:\.\d{1,9})?) "
)
_MONTH_NAMES = {number: name for name, number in MONTHS.items()}
_MAX_LINE = 4096
_STATUS = "nvml-status"


@cache
def status_rows() -> tuple[Pattern, ...]:
    """Return the rows about the status names of NVML, which any program can print."""
    return texts_of(packaged_json(f"log_sources/{_STATUS}.json"))


def status_code(text: str | None) -> str | None:
    """Return the fault code of the status of NVML that a text states, or None."""
    stated = text or ""
    return next((row.code for row in status_rows() if row.contains in stated and row.regex.search(stated)), None)


def decoder_of(name: str, document: Mapping[str, Any]) -> Decoder:
    """Return the decoder of the source that a document of rows describes."""
    framing, rows = re.compile(with_fragments(document["framing"], document), re.MULTILINE), texts_of(document)
    rows = rows if name == _STATUS else (*rows, *status_rows())

    def recognize(body: bytes) -> bool:
        return framing.search(text_of(body)) is not None

    def decode_lines(lines: Iterable[Item], hints: Hints) -> Decoded:
        texts = [Line(line) if isinstance(line, str) else line for line in lines if line]
        if not any(framing.search(line.text) for line in texts):
            raise Rejected("no_framing", f"no line of the source {name}")
        found = [one for line in texts if (one := _fault(name, rows, line, hints.received_at)) is not None]
        strong = {fault.component for row, fault in found if "weaker" not in row.row}
        return Decoded(tuple(fault for row, fault in found if "weaker" not in row.row or fault.component not in strong))

    def decode(body: bytes, hints: Hints) -> Decoded:
        return decode_lines(lines_of(body), hints)

    example = document["rows"][0]["line"]
    found = Decoder(name, document["summary"], example, recognize, decode, decode_lines, can_be_silent=True)
    return replace(found, of_any="of_any" in document)


def _fault(
    source: str, rows: Iterable[Pattern], line: Line, received_at: datetime | None
) -> tuple[Pattern, Fault] | None:
    text = line.text[:_MAX_LINE]
    matches = ((row, found) for row in rows if row.contains in text and (found := row.regex.search(text)))
    row, match = next(matches, (None, None))
    if row is None or match is None:
        return None
    groups = {name: value for name, value in match.groupdict().items() if value is not None}
    code, component = row.code.format(**groups), gpu_named_in(text) if "named" in row.row else row.component(groups)
    groups.pop("number", None)
    node, at = groups.pop("node", None) or line.node, _time(line, received_at)
    return row, Fault(source, code, component, truncate(line.text.strip()), at, evidence(line.text), groups, node=node)


def _time(line: Line, received_at: datetime | None) -> datetime | None:
    """Return the time in a line: that of Go (`2006/01/02 15:04:05`), ISO 8601 or klog, taken as UTC without a zone."""
    found = _TIME.search(line.text[:128])
    if found is None:
        return line.at
    if found[1]:
        return iso_instant(f"{found[1]}-{found[2]}-{found[3]}T{found[4]}") or line.at
    month = _MONTH_NAMES.get(int(found[5]))
    return (yearless_time(month, found[6], found[7], received_at or line.at) if month else None) or line.at
