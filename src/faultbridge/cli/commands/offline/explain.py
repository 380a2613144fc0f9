"""`faultbridge explain`: explains why a job died, and whether it may restart.

It reads files of the job and of its nodes. With some options, it also reads the faults that an installation of
Faultbridge (a stack) recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from faultbridge.cli.commands.offline.explain_text import lines_of
from faultbridge.cli.commands.offline.mechanism import MechanismsOption, book_with
from faultbridge.cli.commands.offline.rank_map import read_rank_map
from faultbridge.cli.commands.offline.recorded_window import RecordedRequest, explained, recorded_request
from faultbridge.cli.commands.options import read_mappings
from faultbridge.cli.render.format_options import with_options
from faultbridge.cli.render.output import examples, print_line
from faultbridge.cli.render.times import PAST_HELP, parse_received_at
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.decoders.common.decoder import Hints
from faultbridge.domain.cluster.ranks import node_of_rank
from faultbridge.errors import Rejected
from faultbridge.explain.signals.read_files import Evidence, InputFile, ReadContext, read_files

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
        session.application.jobs.verdict(request.cluster, request.job, document)
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
    """Return the file that an argument names, as `FILE` or as `NODE=FILE`.

    If a file exists whose name is the whole argument, the argument is a `FILE`, even if it contains `=`. Raises OSError
    if the file cannot be opened.
    """
    node, separator, name = text.partition("=")
    path = Path(name if separator and not Path(text).exists() else text)
    path.open("rb").close()

    def pieces() -> Iterator[bytes]:
        with path.open("rb") as stream:
            yield from iter(lambda: stream.read(PIECE_BYTES), b"")

    return InputFile(str(path), pieces, node if separator and str(path) != text else None)
