"""The options that describe a simulated fleet, and the scenarios of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from faultbridge.cli.commands.options import read_text

if TYPE_CHECKING:
    from faultbridge.lab.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Fleet:
    """A simulated fleet that replays a fault trace.

    It has the number of nodes, the number of further hosts that replace others, the seeds of its runs, and the folder
    for charts.
    """

    trace: str
    nodes: int
    hosts: int
    servers: int | None
    seeds: range
    plots: Path | None

    def scenarios(self, part: str | None, days: float | None = None) -> list[Scenario]:
        """Return one scenario per seed for a part of the trace.

        `part` None means the whole trace. `days` None means the length of that part.
        """
        from faultbridge.lab.scenario import Scenario
        from faultbridge.lab.trace import DAY, read_part

        found = read_part(self.trace, self.servers, part)
        seconds = days * DAY if days else found.seconds
        return [Scenario(found, self.nodes, self.hosts, seconds, seed) for seed in self.seeds]


def fleet_options(
    trace: Annotated[
        str, typer.Option(metavar="FILE", help="Trace of faults in the form of the InfiniteHBD trace; - reads stdin.")
    ],
    nodes: Annotated[int, typer.Option(metavar="N", help="Number of nodes.", min=1, max=100_000)],
    pool: Annotated[
        int | None, typer.Option(metavar="N", help="Further hosts that replace others. Default: 3 % of nodes.", min=0)
    ] = None,
    trace_servers: Annotated[
        int | None, typer.Option(metavar="N", help="Servers that the trace observed. Default: those with a fault.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="First random seed.")] = 1,
    seeds: Annotated[int, typer.Option(metavar="N", help="Number of seeds.", min=1, max=1000)] = 1,
    plots: Annotated[Path | None, typer.Option("--plots", metavar="FOLDER", help="Write charts as SVG there.")] = None,
) -> Fleet:
    """Return the fleet that the command line options describe."""
    hosts = max(1, nodes * 3 // 100) if pool is None else pool
    return Fleet(read_text(trace), nodes, hosts, trace_servers, range(seed, seed + seeds), plots)
