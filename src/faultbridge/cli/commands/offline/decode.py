"""`faultbridge decode` decodes raw text to faults and clears; `faultbridge sources` lists the formats."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from faultbridge.cli.commands.offline.decode_inputs import AUTO, Inputs, lines_text
from faultbridge.cli.commands.options import CLUSTER_VARIABLE, STDIN, known_source, read_mappings
from faultbridge.cli.render.format_options import format_of, formatted_command, with_options
from faultbridge.cli.render.observations import what_text
from faultbridge.cli.render.output import Columns, Document, OutputFormat, examples, notice, show
from faultbridge.cli.render.times import PAST_HELP, parse_received_at, short_time
from faultbridge.decoders import registry
from faultbridge.decoders.common.decoder import Hints
from faultbridge.domain.names import cluster_name, node_name
from faultbridge.errors import Rejected

app = typer.Typer(rich_markup_mode=None)

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
        typer.Option(
            metavar="FILE", help="Your own fault mappings and thresholds (JSON), used before the packaged ones."
        ),
    ] = None,
    instance_type: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE", help="EC2 instance type of the node, to check its GPUs and EFA rates (p5.48xlarge)."
        ),
    ] = None,
) -> Hints:
    return Hints(
        parse_received_at(received_at, datetime.now(UTC)),
        _checked_name(node_name, node, "--node"),
        _checked_name(cluster_name, cluster, "--cluster"),
        instance_type=instance_type,
        mappings=read_mappings(mappings),
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

    With --source auto, input with the outputs of several commands is split at the prompts or headings, and the format
    of each output is recognized separately. Exit code 65: the input is not in the format of the source.
    """
    if source != AUTO:
        known_source(source)
    inputs = Inputs(source, hints, everything=everything)
    show(inputs.decode(files or [STDIN]), DECODED, output, empty="")
    if inputs.failure is not None:
        raise inputs.failure
    if not output.for_people:
        return
    for code in inputs.unknown_codes:
        notice(f"code not in the catalog: {code}; a fault of it gets the default severity and action")
    if inputs.count == 0 and inputs.unparsed == 0:
        notice("no faults found")
    if inputs.read_once and not everything:
        devices = "1 device" if inputs.read_once == 1 else f"{inputs.read_once} devices"
        notice(f"counters of {devices} were read once: only a later sample beside it shows a rise; --all prints them")
    if inputs.ignores_lines:
        notice(lines_text(inputs))


def _checked_name(check: Callable[[str], str], text: str | None, option: str) -> str | None:
    try:
        return check(text) if text is not None else None
    except Rejected as error:
        raise typer.BadParameter(f"invalid {option}: {error.detail}") from error


def _summary(one: Document) -> str:
    if one["kind"] == "summary":
        return f"{one['parsed']} observations, {one['unparsed']} lines or documents not understood"
    if one["kind"] == "snapshot":
        return f"covers {len(one['covers'])} codes, {len(one['present'])} present"
    return ", ".join(f"{name}={value}" for name, value in one.get("values", {}).items())
