"""Decodes `training-log`: hangs, lost peers, CUDA errors and invalid losses of a training job.

The rank that reports a hang is not its cause; the cause is a rank that lags or stops logging. Some frameworks do not
print an invalid loss; instead, a field that the line usually has is absent.

Grammar: lines, which may start with a rank, a time or a progress bar. The mapping `training` defines the pattern of
each fault. Only the first 8,192 characters of a line are read. A pattern is tried at the first eight positions of its
fixed text, each time on the 1,536 characters from that position. Times: none are read, because these logs contain
neither year nor time zone. Units: milliseconds in some patterns. Errors: `Rejected(no_framing)` if the input contains
no text of the mapping's `framing`. Source: PyTorch, NCCL, Megatron and Hugging Face logs.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.data.patterns import Pattern, patterns_of
from faultbridge.decode.frames.chain import lines_of
from faultbridge.decode.frames.decoder import MAX_MESSAGE, Decoded, Hints, fault_of
from faultbridge.decode.frames.line import Item, Line
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, CounterSample, Fault
from faultbridge.model.values import replace

SOURCE = "training-log"
TIMEOUT, DESYNC = "train.nccl_timeout", "train.nccl_desync"
JOB, _GPU = Component(ComponentType.JOB), Component(ComponentType.GPU)
_RANK = re.compile(r"\[(?:PG [^\[\]]{0,64})?Rank (\d{1,6})\]|\[rank(\d{1,6})\]")
_MAX_GROUPS = 64
_WORDS = (b"ProcessGroupNCCL", b"NCCL WARN", b"lm loss", b"elapsed time per iteration", b"CUDA error: ", b"'grad_norm'")

_XID_OF_KERNEL = re.compile(rb"^[^\n{]{10,128} kernel: (?:\[[ \d.]{1,20}\] )?NVRM: Xid ", re.MULTILINE)


class _LineGroup(Struct):
    """All lines that report the same fault: their number, their ranks, and the first line."""

    code: str
    component: Component
    line: Line
    details: dict[str, str]
    count: int = 0
    ranks: dict[str, None] = field(default_factory=dict)


def decode(body: bytes, hints: Hints) -> Decoded:
    """Decode the lines of a body."""
    return decode_lines(lines_of(body), hints)


def decode_lines(lines: Iterable[Item], hints: Hints) -> Decoded:
    """Return each fault once, with the number of its lines, and a counter sample of the last iteration."""
    mapped = mapping("training", hints.mappings)
    patterns, progress = patterns_of(mapped["patterns"]), patterns_of(mapped["progress"])
    groups: dict[tuple[str, ...], _LineGroup] = {}
    values: dict[str, int | str] = {}
    is_framed, last = False, Line("")
    for line in _lines_of(lines):
        is_framed = is_framed or any(word in line.text for word in mapped["framing"])
        for pattern in patterns:
            found = pattern.find(line.text)
            if found is not None:
                _add_line(groups, pattern, found, line)
                break
        found = next((found for pattern in progress if (found := pattern.find(line.text))), None)
        values, last = (_progress(found), line) if found else (values, last)
    if not is_framed:
        raise Rejected("no_framing", "no line of a training log")
    sample = (CounterSample(SOURCE, JOB, values, last.at, last.node),) if values else ()
    return Decoded((*_faults(groups.values()), *sample))


def recognize(body: bytes) -> bool:
    """Return whether a body is probably the log of a training job."""
    return any(word in body for word in _WORDS) and _XID_OF_KERNEL.search(body) is None


def _add_line(groups: dict[tuple[str, ...], _LineGroup], pattern: Pattern, found: re.Match[str], line: Line) -> None:
    row = pattern.row
    details = {name: value for name, value in found.groupdict().items() if value is not None}
    component = _GPU if row.get("component") == "gpu" else JOB
    key = (row["code"], line.node or "", *(details.get(name, "") for name in ("seqnum", "optype", "peer")))
    if key not in groups and len(groups) >= _MAX_GROUPS:
        return
    group = groups.setdefault(key, _LineGroup(row["code"], component, line, details))
    group.count += 1
    ranks = _RANK.findall(line.text[: found.start()][-512:])
    if ranks:
        group.ranks.setdefault(ranks[-1][0] or ranks[-1][1])


def _progress(found: re.Match[str]) -> dict[str, int | str]:
    details = found.groupdict()
    values: dict[str, int | str] = {"iteration": int(details["iteration"])}
    if details.get("step_ms"):
        values["step_milliseconds"] = int(details["step_ms"])
    if details.get("last") and details["last"] == details["iteration"]:
        values["finished"] = 1
    return values


def _faults(groups: Iterable[_LineGroup]) -> Iterator[Fault]:
    groups = tuple(groups)
    operations: defaultdict[str, set[str]] = defaultdict(set)
    for group in groups:
        if group.code == TIMEOUT:
            operations[group.details["seqnum"]].add(group.details["optype"])
    behind = _behind(groups)
    for group in groups:
        text = group.line.text
        # Different collectives with one number mean that the ranks run different programs; no device is faulty.
        is_desync = group.code == TIMEOUT and len(operations[group.details["seqnum"]]) > 1
        details = group.details | ({"ranks": ", ".join(list(group.ranks)[:16])} if group.ranks else {})
        if group.code == TIMEOUT and behind and not is_desync:
            details["rank_behind"] = behind
        # The end of a line has the error.
        code, message = DESYNC if is_desync else group.code, text.strip()[-MAX_MESSAGE:]
        fault = fault_of(SOURCE, code, group.component, message, text, group.line.at, group.line.node, **details)
        yield replace(fault, count=group.count)


def _behind(groups: Iterable[_LineGroup]) -> str | None:
    """Return the rank that timed out in the earliest collective operation, or None.

    A job numbers its collective operations, and each timeout states the number of its operation. A rank whose operation
    has a lower number than that of another rank is behind. The result is None if fewer than two ranks timed out, or if
    all of them timed out in the same operation.
    """
    by_rank: dict[str, int] = {}
    for group in groups:
        if group.code == TIMEOUT:
            by_rank |= {rank: int(group.details["seqnum"]) for rank in group.ranks}
    if len(by_rank) < 2 or len(set(by_rank.values())) < 2:  # noqa: PLR2004 - at least two ranks
        return None
    return min(by_rank, key=lambda rank: by_rank[rank])


MAX_LINE = 8192


def _lines_of(lines: Iterable[Item]) -> Iterator[Line]:
    """Yield the lines that are not empty, cut to `MAX_LINE`. A carriage return ends a line, too."""
    for item in lines:
        line = Line(item) if isinstance(item, str) else item
        if "\r" in line.text or len(line.text) > MAX_LINE:
            yield from (replace(line, text=text[:MAX_LINE]) for text in line.text.split("\r") if text)
        elif line.text:
            yield line
