"""`faultbridge report`: writes a report of a cluster and its cases as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from faultbridge.cli.commands.options import ClusterOption
from faultbridge.cli.declare import Option, command
from faultbridge.cli.render.output import Columns
from faultbridge.cli.render.times import PAST_HELP, parse_time
from faultbridge.cli.stack.command import StackSession
from faultbridge.cli.stack.session import Session
from faultbridge.serve.wiring.services import wire_reports

MAX_ENTRIES = 300
WRITTEN: Columns = {"File": lambda one: one["file"], "Size": lambda one: f"{one['bytes'] / 1000:.0f} KB"}
FileOption = Annotated[Path | None, Option("--output-file FILE", "File to write. Default: the name and .html.")]


@command("report", "--cluster train-a --since 2h", "--cluster train-a --since 7d --output-file week.html")
def write_report(
    session: StackSession,
    cluster: ClusterOption,
    since: Annotated[str | None, Option("TIME", f"Begin of the report. {PAST_HELP}")] = None,
    until: Annotated[str | None, Option("TIME", f"End of the report. {PAST_HELP}")] = None,
    limit: Annotated[int, Option("N", "Include the newest N entries.", min=1)] = MAX_ENTRIES,
    file: FileOption = None,
) -> None:
    """Write a report of a cluster and its cases as one HTML file, which opens from disk without a network."""
    now = session.now()
    window = (parse_time(since, now), parse_time(until, now, "--until"))
    write_file(session, wire_reports(session.application).cluster(cluster, window, limit), file, cluster)


def write_file(session: Session, text: str, file: Path | None, name: str) -> None:
    """Write a report to `file`, or to `NAME.html` in the current folder, and print its path and size."""
    path = file or Path(f"{name}.html")
    path.write_text(text, encoding="utf-8")
    session.show_one({"file": str(path), "bytes": path.stat().st_size}, WRITTEN)
