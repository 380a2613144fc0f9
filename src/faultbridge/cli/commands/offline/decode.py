"""`faultbridge decode` and `faultbridge sources`: decodes raw text to faults and clears."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from faultbridge.cli.commands.options import CLUSTER_VARIABLE, STDIN, known_source, standard_input
from faultbridge.cli.errors.failures import failure_of
from faultbridge.cli.render.format_options import format_of, formatted_command, with_options
from faultbridge.cli.render.observations import Caller, documents, summary_document, what_text
from faultbridge.cli.render.output import Columns, Document, OutputFormat, examples, notice, show
from faultbridge.cli.render.times import PAST_HELP, parse_age, short_time
from faultbridge.data import load_catalog
from faultbridge.data.mapping import parse_extensions
from faultbridge.decoders import registry
from faultbridge.decoders.common.decoder import Decoded, Hints
from faultbridge.domain.faults import Component, CounterSample, Observation
from faultbridge.domain.names import cluster_name, node_name
from faultbridge.domain.times import from_text
from faultbridge.errors import Rejected
from faultbridge.pipeline.normalize.compare import differences
from faultbridge.pipeline.normalize.timestamp import assign_times

app = typer.Typer(rich_markup_mode=None)

AUTO = "auto"
CHUNK_BYTES = 64 * 1024
"""Bytes of each read. The first chunk is also what `--source auto` recognizes the format from."""

DECODED: Columns = {
    "TIME (UTC)": lambda one: short_time(one["observed_at"])[5:],
    "WHAT": what_text,
    "SEVERITY": lambda one: one.get("severity"),
    "ACTION": lambda one: one.get("action"),
    "MESSAGE": lambda one: one.get("message") or _summary(one),
    "NODE": lambda one: one["node"],
}
SOURCES: Columns = {
    "SOURCE": lambda one: one["source"],
    "FORMAT": lambda one: one["format"],
    "EXAMPLE": lambda one: one["example"],
}


@app.command("sources", epilog=examples("faultbridge sources", "faultbridge sources --jsonl"))
@formatted_command
def list_sources(*, output: OutputFormat) -> None:
    """List the source names for `decode --source` and `send --source`, with an example of each format."""
    decoders = (registry.get(name) for name in registry.names())
    listed = ({"source": one.name, "format": one.summary, "example": one.example} for one in decoders)
    show(listed, SOURCES, output)


def _hints(
    cluster: Annotated[
        str | None, typer.Option(metavar="CLUSTER", envvar=CLUSTER_VARIABLE, help="Cluster of the input.")
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="NODE", help="Node, where the input names none.")] = None,
    received_at: Annotated[
        str | None, typer.Option(metavar="TIME", help=f"Time for input without times; default: now. {PAST_HELP}")
    ] = None,
    mappings: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Your own fault mappings (JSON), used before the packaged ones."),
    ] = None,
    instance_type: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="EC2 instance type of the node, to check its GPU count (p5.48xlarge)."),
    ] = None,
) -> Hints:
    """Return what the options say about the input."""
    return Hints(
        _received_time(received_at, datetime.now(UTC)),
        _checked_name(node_name, node, "--node"),
        _checked_name(cluster_name, cluster, "--cluster"),
        instance_type=instance_type,
        mappings=_own_mappings(mappings),
    )


@app.command(
    "decode",
    epilog=examples(
        "faultbridge decode /var/log/kern.log",
        "nvidia-smi -q -x | faultbridge decode --jsonl",
        "faultbridge decode --source kernel-log --node n-7 dmesg.txt",
    ),
)
@with_options(hints=_hints, output=format_of)
def decode(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Files to decode. Default: standard input.")
    ] = None,
    source: Annotated[
        str, typer.Option(metavar="NAME", help="Source name from `faultbridge sources`; auto recognizes it.")
    ] = AUTO,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also print health snapshots, counter samples, and a summary of what was not understood."
        ),
    ] = False,
    *,
    hints: Hints,
    output: OutputFormat,
) -> None:
    """Decode raw text to faults and clears. A clear reports the end of a fault.

    Exit code 65: the input is not in the format of the source.
    """
    if source != AUTO:
        known_source(source)
    inputs = _Inputs(source, hints, everything=everything)
    show(inputs.decode(files or [STDIN]), DECODED, output, empty="")
    if inputs.rejected is not None:
        raise inputs.rejected
    if inputs.count == 0 and inputs.unparsed == 0 and output.for_people:
        notice("no faults found")


@dataclass(slots=True)
class _Inputs:
    """Decodes several inputs. A rejected input does not stop the others.

    `samples` holds the last counter sample of each device, and `rejected` the error of the last rejected input.
    `count` is the number of documents, `unparsed` the number of lines or documents that were not understood.
    """

    source: str
    hints: Hints
    everything: bool
    count: int = 0
    unparsed: int = 0
    samples: dict[tuple[str, Component, str | None], CounterSample] = field(default_factory=dict)
    rejected: Rejected | None = None

    def decode(self, files: list[str]) -> Iterator[Document]:
        """Yield the documents of every file."""
        for file in files:
            try:
                for document in self._decode_file(file):
                    self.count += 1
                    yield document
            except Rejected as error:
                named = Rejected(error.reason, f"{_title(file)}: {error.detail or error.reason}")
                if self.rejected is not None:
                    notice(failure_of(self.rejected).message)
                self.rejected = named

    def _decode_file(self, file: str) -> Iterator[Document]:
        with _open(file) as stream:
            first = stream.read(CHUNK_BYTES)
            source = self.source
            if source == AUTO and registry.needs_whole(first):
                first += stream.read(registry.MAX_BYTES)
            if source == AUTO:
                source = registry.recognize(first)
                notice(f"recognized {_title(file)} as {source}")
            chunks = chain([first], iter(lambda: stream.read(CHUNK_BYTES), b""))
            found = registry.read_pieces(source, chunks, self.hints)
        self.unparsed += found.unparsed
        for note in (*found.notes, *_unparsed_note(found)):
            notice(f"{_title(file)}: {note}")
        observations = assign_times(found.observations, received_at=self.hints.received_at or datetime.now(UTC))
        caller = Caller(load_catalog(), self.hints.cluster, self.hints.node)
        decoded = documents(self._compared(observations), caller, everything=self.everything)
        is_partial = self.everything and (found.unparsed > 0 or found.notes != ())
        return chain(decoded, [summary_document(source, found)]) if is_partial else decoded

    def _compared(self, observations: Sequence[Observation]) -> tuple[Observation, ...]:
        """Add the faults found by comparison with earlier samples of the same device, also those of earlier files."""
        nodes = {one.node for one in observations}
        earlier = [one for one in self.samples.values() if one.node in nodes]
        compared = differences([*earlier, *observations])[len(earlier) :]
        samples = (one for one in observations if isinstance(one, CounterSample))
        self.samples |= {(one.source, one.component, one.node): one for one in samples}
        return compared


def _unparsed_note(found: Decoded) -> Iterator[str]:
    if found.unparsed:
        yield f"{found.unparsed} lines or documents were not understood; check them, they can hold faults"


def _open(file: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(standard_input()) if file == STDIN else Path(file).open("rb")


def _own_mappings(file: Path | None) -> dict[str, Mapping[str, Any]]:
    return parse_extensions(file.read_text("utf-8")) if file else {}


def _received_time(text: str | None, now: datetime) -> datetime:
    """Parse `--received-at`. A time without a zone is wrong usage, because it is ambiguous."""
    if text is None:
        return now
    try:
        return parse_age(text, now) or from_text(text)
    except ValueError as error:
        raise typer.BadParameter(f"not a time with a zone: --received-at {text!r}; {PAST_HELP}") from error


def _checked_name(check: Callable[[str], str], text: str | None, option: str) -> str | None:
    """Check the name of a node or cluster. An invalid name is wrong usage."""
    try:
        return check(text) if text is not None else None
    except Rejected as error:
        raise typer.BadParameter(f"invalid {option}: {error.detail}") from error


def _title(file: str) -> str:
    return "standard input" if file == STDIN else file


def _summary(one: Document) -> str:
    """Summarize a health snapshot or counter sample, which have no message."""
    if one["kind"] == "summary":
        return f"{one['parsed']} observations, {one['unparsed']} lines or documents not understood"
    if one["kind"] == "snapshot":
        return f"covers {len(one['covers'])} codes, {len(one['present'])} present"
    return ", ".join(f"{name}={value}" for name, value in one.get("values", {}).items())
