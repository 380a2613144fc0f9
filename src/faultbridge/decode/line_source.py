"""A source of log lines as data: rules of patterns with their real lines, and one loop for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.decode.frames.chain import lines_of
from faultbridge.decode.frames.clock import MONTHS, iso_instant, yearless_time
from faultbridge.decode.frames.decoder import Decoded, Decoder, Hints, evidence, truncate
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.frames.line import Item, Line
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component, Fault, normalize_pci

_TIME = re.compile(
    r"(?:\[?(\d{4})[/-](\d\d)[/-](\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)\]?"
    r"|[IWEF](\d\d)(\d\d) (\d\d:\d\d:\d\d)(?:\.\d{1,9})?) "
)
_MONTH_NAMES = {number: name for name, number in MONTHS.items()}
_MAX_LINE = 4096
# These groups of a pattern name the component; a group `number` only completes the code.
_NAMES = ("uuid", "serial", "link", "name")


class LineRule(Struct, frozen=True):
    """A pattern of a line, and the fault that the line reports.

    `{group}` in `code` is the value of a group. The groups `pci`, `uuid`, `serial`, `link`, `index` and `name` identify
    the component, `node` names the node, and other groups are attributes. `line` is a real line that the pattern must
    match, and `near` a similar one that it must not match. A rule with `weaker` gives no fault if another rule gives
    one for the same component of the same log.
    """

    pattern: str
    code: str
    line: str
    near: str = ""
    component: ComponentType = ComponentType.GPU
    severity: Severity | None = None
    action: Action | None = None
    weaker: bool = False


class LineSource(Struct, frozen=True):
    """A log whose lines are read separately: each line gives a fault by the first rule that it matches.

    `framing` is searched for in a body to recognize the log.

        SOURCE = LineSource("log of my tool", r"^my-tool: ", (LineRule(r"my-tool: GPU (?P<index>[0-9]) lost", ...),))
    """

    summary: str
    framing: str
    rules: tuple[LineRule, ...]

    def decoder(self, name: str) -> Decoder:
        """Return the decoder of this source."""
        framing = re.compile(self.framing, re.MULTILINE)
        rules = [(re.compile(rule.pattern), rule) for rule in self.rules]

        def recognize(body: bytes) -> bool:
            return framing.search(text_of(body)) is not None

        def decode_lines(lines: Iterable[Item], hints: Hints) -> Decoded:
            texts = [Line(line) if isinstance(line, str) else line for line in lines if line]
            if not any(framing.search(line.text) for line in texts):
                raise Rejected("no_framing", f"no line of the source {name}")
            found = list(_faults(name, rules, texts, hints.received_at))
            strong = {fault.component for rule, fault in found if not rule.weaker}
            return Decoded(tuple(fault for rule, fault in found if not rule.weaker or fault.component not in strong))

        def decode(body: bytes, hints: Hints) -> Decoded:
            return decode_lines(lines_of(body), hints)

        example = self.rules[0].line
        return Decoder(name, self.summary, example, recognize, decode, decode_lines, can_be_silent=True)


def _faults(
    source: str, rules: Iterable[tuple[re.Pattern[str], LineRule]], lines: Iterable[Line], received_at: datetime | None
) -> Iterator[tuple[LineRule, Fault]]:
    for line in lines:
        text = line.text[:_MAX_LINE]
        for pattern, rule in rules:
            found = pattern.search(text)
            if found is not None:
                yield rule, _fault(source, rule, found, line, received_at)
                break


def _fault(source: str, rule: LineRule, found: re.Match[str], line: Line, received_at: datetime | None) -> Fault:
    groups = {name: value for name, value in found.groupdict().items() if value is not None}
    code = rule.code.format(**groups)
    groups.pop("number", None)
    pci, index, node = groups.pop("pci", None), groups.pop("index", None), groups.pop("node", None)
    names: dict[str, Any] = {name: groups.pop(name) for name in _NAMES if name in groups}
    return Fault(
        source=source,
        code=code,
        component=Component(
            rule.component, pci=normalize_pci(pci) if pci else None, index=int(index) if index else None, **names
        ),
        message=truncate(line.text.strip()),
        observed_at=_time(line, received_at),
        evidence=evidence(line.text),
        attributes=groups,
        severity=rule.severity,
        action=rule.action,
        node=node or line.node,
    )


def _time(line: Line, received_at: datetime | None) -> datetime | None:
    """Return the time in a line: that of Go (`2006/01/02 15:04:05`), ISO 8601 or klog, taken as UTC without a zone.

    Otherwise, the time of its frame is returned.
    """
    found = _TIME.search(line.text[:128])
    if found is None:
        return line.at
    if found[1]:
        return iso_instant(f"{found[1]}-{found[2]}-{found[3]}T{found[4]}") or line.at
    month = _MONTH_NAMES.get(int(found[5]))
    return (yearless_time(month, found[6], found[7], received_at or line.at) if month else None) or line.at
