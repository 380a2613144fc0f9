"""The options that describe a simulated fleet, and the scenarios of its runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from faultbridge.cli.commands.options import read_text
from tests.lab.scenario import Physics, Scenario
from tests.lab.trace import DAY, read_part


@dataclass(frozen=True, slots=True)
class Fleet:
    """A simulated fleet that replays a fault trace, a recording of the faults of many servers.

    - `trace`: the text of the fault trace
    - `nodes`: the number of nodes
    - `hosts`: the number of further hosts that can replace the hosts of nodes
    - `servers`: the number of servers whose faults were recorded; None means the number of servers that the trace
      names. A trace names only servers that had a fault.
    - `seeds`: the random seeds, one for each run
    - `precursors`: the shares in percent of the faults that a precursor announces, one for each comparison
    - `plots`: the folder for charts; None for no charts
    """

    trace: str
    nodes: int
    hosts: int
    servers: int | None
    seeds: range
    precursors: list[float]
    plots: Path | None

    def scenarios(self, part: str | None, days: float | None = None, precursors: float = 0.0) -> list[Scenario]:
        """Return one scenario per seed: a simulated run of the fleet with the faults of a part of the trace.

        If `part` is None, the whole trace is used. `days` is the simulated time; None means the length of the part.
        """
        found = read_part(self.trace, self.servers, part)
        seconds = days * DAY if days else found.seconds
        physics = Physics(precursors=precursors / 100)
        return [Scenario(found, self.nodes, self.hosts, seconds, seed, physics) for seed in self.seeds]


def fleet_options(
    trace: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="Fault trace, JSON (format: docs/default-policy.md); - reads standard input."
        ),
    ],
    nodes: Annotated[int, typer.Option(metavar="N", help="Number of nodes.", min=1, max=100_000)],
    pool: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Spare hosts that can replace others. Default: 3 % of --nodes, at least 1.", min=0
        ),
    ] = None,
    trace_servers: Annotated[
        int | None, typer.Option(metavar="N", help="Servers that the trace observed. Default: those with a fault.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="First random seed.")] = 1,
    seeds: Annotated[int, typer.Option(metavar="N", help="Number of seeds.", min=1, max=1000)] = 1,
    precursors: Annotated[
        list[float] | None,
        typer.Option(metavar="PERCENT", help="Share of the faults that a precursor announces; may be repeated."),
    ] = None,
    plots: Annotated[Path | None, typer.Option("--plots", metavar="FOLDER", help="Write charts as SVG there.")] = None,
) -> Fleet:
    """Return the fleet that the command line options describe."""
    hosts = max(1, nodes * 3 // 100) if pool is None else pool
    return Fleet(read_text(trace), nodes, hosts, trace_servers, range(seed, seed + seeds), precursors or [0.0], plots)
