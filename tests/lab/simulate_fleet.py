"""`python -m tests.lab fleet`: replays months of a fleet under a policy.

With `--compare`, it also runs the rules of other repair systems (baselines) on the same faults, and compares the
results.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from faultbridge.cli.commands.options import Format, read_text
from faultbridge.cli.declare import Group, Option
from faultbridge.cli.render.output import Columns, fields, notice, show
from faultbridge.decide.backtest.plots import write_plots
from faultbridge.model.policy import Policy
from tests.lab.baselines import BASELINES, Baseline
from tests.lab.comparison import PACKAGED, compare_systems, documents_of, named_policy
from tests.lab.plots import comparison_plots
from tests.lab.scenario import Physics, Scenario
from tests.lab.trace import DAY, read_part

FLEET_EXAMPLES = (
    "$ python -m tests.lab fleet --trace trace.json --nodes 400 --days 30",
    "$ python -m tests.lab fleet --trace trace.json --nodes 200 --compare",
    "$ python -m tests.lab fleet --trace trace.json --nodes 200 --compare \\",
    "    --plots charts",
)


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
        str, Option("FILE", "Fault trace, JSON (format: docs/default-policy.md); - reads standard input.")
    ],
    nodes: Annotated[int, Option("N", "Number of nodes.", min=1, max=100_000)],
    pool: Annotated[
        int | None, Option("N", "Spare hosts that can replace others. Default: 3 % of --nodes, at least 1.", min=0)
    ] = None,
    trace_servers: Annotated[
        int | None, Option("N", "Servers that the trace observed. Default: those with a fault.")
    ] = None,
    seed: Annotated[int, Option("N", "First random seed.")] = 1,
    seeds: Annotated[int, Option("N", "Number of seeds.", min=1, max=1000)] = 1,
    precursors: Annotated[
        list[float] | None, Option("PERCENT", "Share of the faults that a precursor announces; may be repeated.")
    ] = None,
    plots: Annotated[Path | None, Option("FOLDER", "Write charts as SVG there.")] = None,
) -> Fleet:
    """Return the fleet that the command line options describe."""
    hosts = max(1, nodes * 3 // 100) if pool is None else pool
    return Fleet(read_text(trace), nodes, hosts, trace_servers, range(seed, seed + seeds), precursors or [0.0], plots)


def _ratio(name: str) -> Any:
    def cell(one: Any) -> str:
        found = one["against_eks"].get(name)
        if not found:
            return ""
        return f"{found['ratio']:.3f}" + (f" +-{found['margin']:.3f}" if found["margin"] is not None else "")

    return cell


def _number(name: str, digits: int = 0) -> Any:
    def cell(one: Any) -> str:
        margin = one["margins"].get(name)
        text = f"{one[name]:,.{digits}f}"
        return f"{text} +-{margin:,.{digits}f}" if margin is not None else text

    return cell


COLUMNS: Columns = fields(
    "SYSTEM, PRECURSORS, LOST GPU-H, OF EKS, LOST BY JOBS, OF EKS'S, GOODPUT, INTERRUPTIONS, NEEDLESS EVICTIONS, "
    "REPLACED, NEEDLESS REPLACED, PAGES/WEEK"
) | {
    "PRECURSORS": lambda one: f"{one['precursors']:.0f} %",
    "LOST GPU-H": _number("lost_gpu_hours"),
    "OF EKS": _ratio("lost_gpu_hours"),
    "LOST BY JOBS": _number("lost_by_jobs"),
    "OF EKS'S": _ratio("lost_by_jobs"),
    "GOODPUT": _number("goodput", 4),
    "INTERRUPTIONS": _number("interruptions"),
    "NEEDLESS EVICTIONS": _number("needless_evictions"),
    "REPLACED": _number("replacements"),
    "NEEDLESS REPLACED": _number("needless_replacements"),
    "PAGES/WEEK": _number("pages_a_week", 1),
}


PolicyOption = Annotated[
    list[str] | None, Option("FILE", "Policy file, or `packaged`; may be repeated. Default: packaged.")
]
DaysOption = Annotated[float | None, Option("D", "Days to replay. Default: those of the trace.", min=0.1, max=3660)]
PartOption = Annotated[
    list[str] | None, Option("N/OF", "Use one of several equal parts of the trace, such as 1/4; may be repeated.")
]
CompareOption = Annotated[
    bool, Option("--compare", "Also simulate the repair rules of other systems on the same faults.")
]


def _quiet(_: str) -> None:
    """Print no progress."""


def simulate_fleet(
    fleet: Annotated[Fleet, Group(fleet_options)],
    policy: PolicyOption = None,
    days: DaysOption = None,
    part: PartOption = None,
    compare: CompareOption = False,
    *,
    output: Format,
) -> None:
    """Replay months of a fleet through Faultbridge's own code, with faults like those of a recorded trace.

    Results are means over all runs, with 95 % confidence intervals. docs/default-policy.md lists the assumptions.
    """
    policies = dict(
        named_policy(None, PACKAGED) if one == "packaged" else named_policy(read_text(one), Path(one).name)
        for one in policy or ("packaged",)
    )
    systems: dict[str, Policy | Baseline] = {**policies, **(BASELINES if compare else {})}
    documents = []
    for share in fleet.precursors:
        scenarios = [one for name in part or (None,) for one in fleet.scenarios(name, days, share)]
        documents += documents_of(compare_systems(scenarios, systems, notice if output.for_people else _quiet), share)
    show(documents, COLUMNS, output)
    if fleet.plots is not None:
        write_plots(fleet.plots, comparison_plots(documents))
    if compare and output.for_people:
        for one in BASELINES.values():
            notice(f"{one.name}: {one.approximated}")
