"""`faultbridge simulate fleet`: replays months of a fleet under a policy and compares it with other systems."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import read_text
from faultbridge.cli.render.format_options import formatted_command
from faultbridge.cli.render.output import Columns, OutputFormat, examples, notice, show

PACKAGED = "packaged"
EPILOG = examples(
    "faultbridge simulate fleet --trace trace.json --nodes 400 --days 30",
    "faultbridge simulate fleet --trace trace.json --nodes 200 --compare",
    "faultbridge simulate fleet --trace trace.json --nodes 200 --part 2/4 --part 3/4 --compare --plots charts",
)


def _number(name: str, digits: int = 0) -> Any:  # noqa: ANN401 - a cell of a table
    def cell(one: Any) -> str:  # noqa: ANN401 - a document
        margin = one["margins"].get(name)
        text = f"{one[name]:,.{digits}f}"
        return f"{text} +-{margin:,.{digits}f}" if margin is not None else text

    return cell


COLUMNS: Columns = {
    "SYSTEM": lambda one: one["system"],
    "LOST GPU-H": _number("lost_gpu_hours"),
    "GOODPUT": _number("goodput", 4),
    "ETTR": _number("ettr", 4),
    "EVICTIONS": _number("evictions"),
    "NEEDLESS": _number("needless_evictions"),
    "REPLACED": _number("replacements"),
    "NEEDLESS REPLACED": _number("needless_replacements"),
    "PAGES/WEEK": _number("pages_a_week", 1),
}


TraceOption = Annotated[
    str, typer.Option(metavar="FILE", help="Trace of faults in the form of the InfiniteHBD trace; - reads stdin.")
]
NodesOption = Annotated[int, typer.Option(metavar="N", help="Number of nodes.", min=1, max=100_000)]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help=f"Policy file, or `{PACKAGED}`; may be repeated. Default: {PACKAGED}."),
]
DaysOption = Annotated[
    float | None, typer.Option(metavar="D", help="Days to replay. Default: those of the trace.", min=0.1, max=3660)
]
PoolOption = Annotated[
    int | None, typer.Option(metavar="N", help="Further hosts that replace others. Default: 3 % of nodes.", min=0)
]
ServersOption = Annotated[
    int | None, typer.Option(metavar="N", help="Servers that the trace observed. Default: those with a fault.")
]
PartOption = Annotated[
    list[str] | None,
    typer.Option(metavar="N/OF", help="Use one of several equal parts of the trace, such as 1/4; may be repeated."),
]
SeedOption = Annotated[int, typer.Option(metavar="N", help="First random seed.")]
SeedsOption = Annotated[int, typer.Option(metavar="N", help="Number of seeds.", min=1, max=1000)]
CompareOption = Annotated[bool, typer.Option("--compare", help="Run other systems on the same faults too.")]
PlotsOption = Annotated[Path | None, typer.Option("--plots", metavar="FOLDER", help="Write charts as SVG there.")]


@formatted_command
def simulate_fleet(
    trace: TraceOption,
    nodes: NodesOption,
    policy: PolicyOption = None,
    days: DaysOption = None,
    pool: PoolOption = None,
    trace_servers: ServersOption = None,
    part: PartOption = None,
    seed: SeedOption = 1,
    seeds: SeedsOption = 1,
    compare: CompareOption = False,
    plots: PlotsOption = None,
    *,
    output: OutputFormat,
) -> None:
    """Replay months of a fleet through the product's own stages, with faults like those of a trace.

    Results are means over the seeds with 95 % confidence intervals. docs/default-policy.md lists the assumptions.
    """
    from faultbridge.domain.policy import Policy
    from faultbridge.lab.baselines import BASELINES, Baseline
    from faultbridge.lab.comparison import compare_systems, named_policy, savings_of
    from faultbridge.lab.scenario import Scenario
    from faultbridge.lab.trace import DAY, read_part
    from faultbridge.plots.results import comparison_plots, write_plots

    text = read_text(trace)
    found = [read_part(text, trace_servers, one) for one in part or (None,)]
    hosts = max(1, nodes * 3 // 100) if pool is None else pool
    scenarios = [
        Scenario(one, nodes, hosts, days * DAY if days else one.seconds, number)
        for one in found
        for number in range(seed, seed + seeds)
    ]
    policies = dict(named_policy(None if one == PACKAGED else read_text(one)) for one in policy or (PACKAGED,))
    systems: dict[str, Policy | Baseline] = {**policies, **(BASELINES if compare else {})}
    compared = compare_systems(scenarios, systems, progress_notices(output))
    documents = [one.document() for one in compared]
    if compare:
        savings = savings_of(compared, policies, BASELINES)
        documents = [{**one, "saving": savings.get(one["system"])} for one in documents]
    show(documents, COLUMNS, output)
    if plots is not None:
        write_plots(plots, comparison_plots(documents, "faultbridge"))
    if compare and output.for_people:
        _explain(savings, BASELINES)


def _explain(savings: Mapping[str, Mapping[str, Any]], baselines: Mapping[str, Any]) -> None:
    """Print what is approximated, and whether each policy saves enough against the best baseline."""
    from faultbridge.lab.comparison import GOAL

    for one in baselines.values():
        notice(f"{one.name}: {one.approximated}")
    for name, one in savings.items():
        share, margin = one["share"] * 100, one["margin"]
        spread = f" +-{margin * 100:.0f} %" if margin is not None else ""
        words = "meets" if one["meets_goal"] else "does not meet"
        notice(
            f"{name} saves {share:.0f} %{spread} of the GPU-hours that {one['against']} loses:"
            f" it {words} the goal of {GOAL:.0%} at no more needless evictions"
        )


def progress_notices(output: OutputFormat) -> Any:  # noqa: ANN401 - a function
    """Return the function that prints each tenth of the work on stderr."""
    printed = 0

    def progress(share: float) -> None:
        nonlocal printed
        if output.for_people and int(share * 10) > printed:
            printed = int(share * 10)
            notice(f"{printed * 10} % done")

    return progress
