"""Format the verdict of `faultbridge explain` as text; long lines are wrapped at 80 characters."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from faultbridge.cli.render.output import Document
from faultbridge.domain.safe_text import visible

WIDTH = 80
_TITLE = 10
_MAX_OTHERS = 3
_HARDWARE = {
    "blamed": "a fault of a node caused this",
    "acquitted": "hardware did not cause this",
    "not_shown": "the files do not show whether hardware caused this",
}


def lines_of(document: Document) -> Iterator[str]:
    """Yield the lines of the text: the verdict, its evidence, other possible causes, and the files read."""
    yield from _titled("VERDICT", " ".join([document["verdict"], *document["nodes"]]))
    name = f"{document['mechanism']} ({document['domain']})" if document["mechanism"] else "unknown"
    yield from _titled("CAUSE", f"{name}: {document['summary']}")
    yield from _titled("HARDWARE", _hardware(document["hardware"]))
    yield from _titled("NEXT", document["settles"])
    if document["shared"]:
        yield from _titled("SHARED", "most nodes show this fault: look for what they share; no node is left out")
    for one in document["devices"]:
        yield from _titled("DEVICE", _device(one))
    for one in document["repairs"]:
        done = one["resolution"] or one["case_status"]
        yield from _titled("REPAIR", f"{one['node']}: {one['repair_action']} {done}, case {one['case_id']}")
    if document["job"]:
        job = document["job"]
        runs = "" if job["ended_at"] else ": it has not ended, so the verdict is not final"
        yield from _titled("JOB", f"{job['job_id']} is {job['state']}{runs}")
    if document["check"]:
        yield from _titled("CHECK", f"{', '.join(document['check'])}: test before the restart")
        for one in document["checks"]:
            yield from _titled("", f"{one['node']}: {_short(one['text'])}")
    first, *others = document["causes"] or [None]
    if first is not None:
        title = "cause" if document["mechanism"] else "likeliest mechanism, with too few points"
        yield ""
        yield from _wrapped("", "  ", f"{title}: {first['mechanism']}, {first['score']} points")
        yield from _points("for", first["for"])
        yield from _points("against", first["against"])
    for one in others[:_MAX_OTHERS]:
        yield from ("", f"other mechanism: {one['mechanism']}, {one['score']} points")
        yield from _points("for", one["for"][:1])
        yield from _points("against", one["against"])
    yield from _collectives(document["collectives"])
    yield from _notes(document)


def _titled(title: str, text: str) -> Iterator[str]:
    yield from _wrapped(f"{title:<{_TITLE}}", " " * _TITLE, text)


def _wrapped(first: str, later: str, text: str) -> Sequence[str]:
    return textwrap.wrap(visible(" ".join(text.split())), WIDTH, initial_indent=first, subsequent_indent=later) or [
        first
    ]


def _hardware(hardware: Document) -> str:
    text = _HARDWARE[hardware["state"]]
    for title, nodes in (("checked", hardware["checked"]), ("not checked", hardware["not_checked"])):
        if nodes:
            text += f"; {title}: {', '.join(nodes)}"
    return text


def _device(device: Document) -> str:
    names = [f"GPU {device['index']}" if device["index"] is not None else "GPU", device["pci"], device["uuid"]]
    rank = f": rank {device['rank']}" if device["rank"] is not None else ""
    return f"{device['node']} {' '.join(filter(None, names))}{rank} ({device['signal']})"


def _points(title: str, points: Sequence[Document]) -> Iterator[str]:
    """Yield a line for each piece of evidence, with its points, and then the log line that it comes from.

    `title` is `for` or `against`. If later evidence comes from the same log line as the first piece of evidence, the
    log line is not printed again.
    """
    lead = None
    for one in points:
        signal = one["signal"]
        facts = [f"{one['points']:+d}", one["weight"]]
        if signal:
            rank = f"rank {signal['rank']}" if signal["rank"] is not None else None
            facts += [signal["name"], *(fact for fact in (signal["node"], rank, signal["at"]) if fact)]
        yield from _wrapped(f"  {title} ", "      ", " ".join(facts))
        if signal and signal != lead:
            place = f"{signal['file']}:{signal['line']}" if signal["line"] else signal["file"]
            yield from _wrapped("      ", "        ", f"{place}: {_short(signal['text'])}")
        lead = lead or signal


def _short(text: str) -> str:
    return text if len(text) <= 2 * WIDTH else f"{text[: 2 * WIDTH]}..."


def _collectives(collectives: Document | None) -> Iterator[str]:
    if not collectives:
        return
    yield ""
    if not collectives["findings"]:
        waits = "the dumps do not show which rank the others wait for" if collectives["waiting"] else "no rank waits"
        yield from _wrapped("", "  ", f"collectives: {waits}")
    for one in collectives["findings"]:
        node = f" on {one['node']}" if one["node"] else ""
        waiting = ",".join(map(str, one["waiting"]))
        call = f"{one['operation']} number {one['sequence']} of group {one['group']} {one['description']}"
        yield from _wrapped("", "  ", f"rank {one['rank']}{node}: {one['state']} in {call}; waiting: {waiting}")
    for one in collectives["joined"]:
        yield from _wrapped(
            "", "  ", f"all ranks started number {one['sequence']} of group {one['group']}: no rank is named"
        )
    if not collectives["missing_blamed"]:
        count = len(collectives["missing"])
        yield from _wrapped(
            "", "  ", f"{count} ranks have no dump, more than half: they are not named; add their dumps"
        )


def _notes(document: Document) -> Iterator[str]:
    yield ""
    for one in document["claims"]:
        yield from _wrapped(
            "", "  ", f"not evidence, printed by the job: {one['file']}:{one['line']}: {_short(one['text'])}"
        )
    if document["recovered"]:
        yield f"{len(document['recovered'])} errors did not end the job: it made progress after them"
    for one in document["files"]:
        where = f" of {one['node']}" if one["node"] else ""
        yield from _wrapped("", "  ", f"read {one['file']}: {one['source']}{where}, {one['lines']} lines")
    for one in document["skipped"]:
        yield from _wrapped("", "  ", f"skipped {one}")
