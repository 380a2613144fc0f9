"""`faultbridge explain`: explains why a job died from its files, its nodes' files and recorded faults."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from faultbridge.cli.commands.offline.mechanism import MechanismsOption, book_with
from faultbridge.cli.commands.offline.recorded import RecordedRequest, explained, recorded_request
from faultbridge.cli.commands.options import read_mappings, with_options
from faultbridge.cli.render.output import Document, examples, print_line
from faultbridge.cli.render.times import PAST_HELP, parse_received_at
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.decode.frames.decoder import Hints
from faultbridge.explain.signals.read_files import Evidence, InputFile, ReadContext, read_files
from faultbridge.model.cluster.ranks import node_of_rank, rank_text
from faultbridge.model.errors import Rejected
from faultbridge.model.safe_text import visible

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
    """Yield a line for each piece of evidence with its points, then its log line, each log line once."""
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


def read_rank_map(file: Path) -> dict[str, str]:
    """Return the ranks of each node from a rank map file; raises Rejected if it is none or repeats a rank."""
    try:
        ranks = {node: [int(rank) for rank in listed] for node, listed in json.loads(file.read_bytes()).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Rejected("bad_node_map", f"{file}: not an object of nodes with lists of ranks") from error
    if sum(map(len, ranks.values())) != len({rank for listed in ranks.values() for rank in listed}):
        raise Rejected("bad_node_map", f"{file}: a rank is on two nodes")
    return {node: rank_text(listed) for node, listed in ranks.items()}


app = typer.Typer(rich_markup_mode=None)

PIECE_BYTES = 1024 * 1024


def _hints(
    mappings: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Your own fault mappings (JSON), for files of nodes.")
    ] = None,
    received_at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"When the files were taken, for times without a year. {PAST_HELP}"),
    ] = None,
) -> Hints:
    return Hints(parse_received_at(received_at, datetime.now(UTC)), mappings=read_mappings(mappings))


@app.command(
    "explain",
    epilog=examples(
        "faultbridge explain job.err dumps/*",
        "faultbridge explain job.err n-7=kern.log n-8=kern8.log --nodes nodes.json",
        "faultbridge explain --json --mechanisms own/ --job-log job.err n-7=kern.log",
        "faultbridge explain --job 88213 --cluster train-a",
        "faultbridge explain job.err --job 88213 --cluster train-a --nodes nodes.json",
        "faultbridge explain job.err --job 88213 --cluster train-a --record",
        "faultbridge explain --case c-vdg2kyyvbobyajcb47od4wpeuw",
        "faultbridge explain --cluster train-a --at 2h --node n-7",
    ),
)
@stack_command
@with_options(hints=_hints, request=recorded_request)
def explain_job(
    session: Session,
    hints: Hints,
    request: RecordedRequest,
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="Logs of the job, files of its nodes (NODE=FILE), dumps of its ranks."),
    ] = None,
    job_logs: Annotated[
        list[Path] | None,
        typer.Option("--job-log", metavar="FILE", help="Log of the job, whatever its lines look like. Repeatable."),
    ] = None,
    nodes: Annotated[
        Path | None, typer.Option(metavar="MAP", help='JSON file with the ranks of each node: {"n-7": [0, 1]}.')
    ] = None,
    mechanisms: MechanismsOption = None,
) -> None:
    """Explain why a job died, and decide whether it may restart.

    The command reads logs of the job, files of its nodes in every format of `faultbridge sources`, and PyTorch Flight
    Recorder dumps. With --job, --case or --at, it also reads the faults that a stack recorded; --record publishes the
    verdict. A line in the log of the job is no evidence of a fault of a node. Points weigh the evidence for each
    mechanism; docs/explain.md lists them. Exit code 2: wrong usage; the job succeeded, or it is running and --record is
    given. Exit code 65: a dump or a document is damaged, no file can be read, or all files are empty.
    """
    recorded = request.find(session)
    inputs = _inputs(files or [], job_logs or [], is_recorded=recorded is not None)
    ranks = node_of_rank(read_rank_map(nodes)) if nodes else recorded.ranks if recorded else {}
    book = book_with(mechanisms)
    evidence = read_files(inputs, ReadContext(book.patterns, book.roles, ranks, hints))
    if recorded is None:
        _check_readable(evidence, len(inputs))
    document = explained(session, evidence, book, ranks, recorded)
    if request.record and request.cluster and request.job:
        from faultbridge.repair.jobs.verdicts import record_verdict

        record_verdict(session.application.jobs.jobs.writer, request.cluster, request.job, document)
    if not session.prints_table:
        session.show_one(document, {})
        return
    for line in lines_of(document):
        print_line(line)


def _check_readable(evidence: Evidence, inputs: int) -> None:
    if len(evidence.skipped) == inputs:
        raise Rejected("binary", f"no file can be read: {', '.join(evidence.skipped)}")
    if not (evidence.signals or evidence.collectives or any(span.lines for span in evidence.spans)):
        raise Rejected("empty", "there is nothing to explain: the files are empty")


def _inputs(files: Sequence[str], job_logs: Sequence[Path], *, is_recorded: bool) -> list[InputFile]:
    stated = (replace(_input(str(one)), node=None, is_job_log=True) for one in job_logs)
    inputs = [*map(_input, files), *stated]
    if not inputs and not is_recorded:
        raise typer.BadParameter("no file; give the logs of the job, files of its nodes, dumps, or --job and --cluster")
    return inputs


def _input(text: str) -> InputFile:
    """Return the file of an argument, `FILE` or `NODE=FILE`; an existing file may have `=` in its name."""
    node, separator, name = text.partition("=")
    path = Path(name if separator and not Path(text).exists() else text)
    path.open("rb").close()

    def pieces() -> Iterator[bytes]:
        with path.open("rb") as stream:
            yield from iter(lambda: stream.read(PIECE_BYTES), b"")

    return InputFile(str(path), pieces, node if separator and str(path) != text else None)
