"""`faultbridge decode`: raw text to faults and clears, on this machine and nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from faultbridge.cli.failures import failure_of
from faultbridge.cli.observed import Caller, component_name, documents
from faultbridge.cli.output import Columns, Document, Form, JsonFlag, JsonlFlag, form_of, notice, show
from faultbridge.cli.times import HELP, ago
from faultbridge.data import catalogue
from faultbridge.data.mapping import read_own
from faultbridge.decoders import registry
from faultbridge.decoders.base import Hints
from faultbridge.domain.names import cluster_name, node_name
from faultbridge.domain.times import from_text
from faultbridge.errors import Rejected
from faultbridge.pipeline.normalize.compare import differences
from faultbridge.pipeline.normalize.timestamp import settle

AUTO = "auto"
HEAD = 64 * 1024
PIECE = 64 * 1024
STDIN = "-"
COLUMNS: Columns = {
    "TIME": lambda one: one["observed_at"],
    "KIND": lambda one: one["kind"],
    "CODE": lambda one: one.get("code"),
    "SEVERITY": lambda one: one.get("severity"),
    "ACTION": lambda one: one.get("action"),
    "COMPONENT": lambda one: component_name(one["component"]) if "component" in one else None,
    "NODE": lambda one: one["node"],
    "MESSAGE": lambda one: one.get("message") or _counted(one),
}

EPILOG = "Examples: faultbridge decode /var/log/kern.log; nvidia-smi -q -x | faultbridge decode --jsonl"


def command(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE...|-]", help="Files; standard input if none.")
    ] = None,
    source: Annotated[str, typer.Option(help="A name from `faultbridge sources`, or auto.")] = AUTO,
    cluster: Annotated[str | None, typer.Option(help="The cluster that the input is from.")] = None,
    node: Annotated[str | None, typer.Option(help="The node, where the input names none.")] = None,
    received_at: Annotated[str | None, typer.Option(help=f"When it came in, if not now. {HELP}")] = None,
    mappings: Annotated[
        Path | None, typer.Option("--mappings", help="Your own words for faults (JSON), put before the packaged ones.")
    ] = None,
    instance_type: Annotated[
        str | None, typer.Option(help="The node's instance type (p5.48xlarge): its GPUs are counted against it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Surveys and readings too.")] = False,
    as_json: JsonFlag = False,
    as_jsonl: JsonlFlag = False,
) -> None:
    """Turn raw text into faults and clears. Exit code 65: the input is none of the source's format."""
    form = form_of(as_json=as_json, as_jsonl=as_jsonl)
    if source != AUTO and source not in registry.names():
        raise typer.BadParameter(f"{source!r} is no source of this release; there are {', '.join(registry.names())}")
    now = datetime.now(UTC)
    hints = Hints(
        _instant(received_at, now),
        _named(node_name, node, "--node"),
        _named(cluster_name, cluster, "--cluster"),
        instance_type=instance_type,
        mappings=_own(mappings),
    )
    reading = _Reading(source, hints, everything=everything)
    show(reading.read(files or [STDIN]), COLUMNS, form, empty="")
    if reading.rejected is not None:
        raise reading.rejected
    if reading.found == 0 and form is Form.PEOPLE:
        notice("nothing is wrong in it")


@dataclass(slots=True)
class _Reading:
    """Decodes input after input; one that is rejected does not keep the others from being read."""

    source: str
    hints: Hints
    everything: bool
    found: int = 0
    rejected: Rejected | None = None

    def read(self, files: list[str]) -> Iterator[Document]:
        for file in files:
            try:
                for document in self._decoded(file):
                    self.found += 1
                    yield document
            except Rejected as error:
                named = Rejected(error.reason, f"{_title(file)}: {error.detail or error.reason}")
                if self.rejected is not None:
                    notice(failure_of(self.rejected).what)
                self.rejected = named

    def _decoded(self, file: str) -> Iterator[Document]:
        with _opened(file) as stream:
            head = stream.read(HEAD)
            source = self.source
            if source == AUTO:
                source = registry.recognize(head)
                notice(f"taking {_title(file)} for {source}")
            pieces = chain([head], iter(lambda: stream.read(PIECE), b""))
            found = registry.decode_pieces(source, pieces, self.hints)
        observations = settle(found, received_at=_received(self.hints))
        caller = Caller(catalogue(), self.hints.cluster, self.hints.node)
        return documents(differences(observations), caller, everything=self.everything)


def _opened(file: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if file == STDIN else Path(file).open("rb")


def _received(hints: Hints) -> datetime:
    return hints.received_at or datetime.now(UTC)


def _own(file: Path | None) -> dict[str, Mapping[str, Any]]:
    return read_own(file.read_text("utf-8")) if file else {}


def _instant(text: str | None, now: datetime) -> datetime:
    """Read when the input came in; without a zone it would be anybody's guess."""
    if text is None:
        return now
    try:
        return ago(text, now) or from_text(text)
    except ValueError as error:
        raise typer.BadParameter(f"--received-at {text!r} is neither a duration nor a time with a zone") from error


def _named(check: Callable[[str], str], text: str | None, option: str) -> str | None:
    try:
        return check(text) if text is not None else None
    except Rejected as error:
        raise typer.BadParameter(f"{option} {error.detail}") from error


def _title(file: str) -> str:
    return "standard input" if file == STDIN else file


def _counted(one: Document) -> str:
    if one["kind"] == "snapshot":
        return f"covers {len(one['covers'])} codes, {len(one['present'])} present"
    return ", ".join(f"{name}={value}" for name, value in one.get("values", {}).items())
