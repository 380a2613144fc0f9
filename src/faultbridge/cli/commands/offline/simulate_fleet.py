"""`faultbridge simulate fleet`: replays months of a fleet under a policy and compares it with other systems."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import read_text
from faultbridge.cli.render.format_options import formatted_command
from faultbridge.cli.render.output import Columns, OutputFormat, examples, notice, show

EPILOG = examples(
    "faultbridge simulate fleet --trace trace.json --nodes 400 --days 30",
    "faultbridge simulate fleet --trace trace.json --nodes 200 --compare",
    "faultbridge simulate fleet --trace trace.json --nodes 200 --part 2/4",
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
PolicyOption = Annotated[str | None, typer.Option(metavar="FILE", help="Policy file. Default: the packaged policy.")]
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
    str | None, typer.Option(metavar="N/OF", help="Use one of several equal parts of the trace, such as 1/4.")
]
SeedOption = Annotated[int, typer.Option(metavar="N", help="First random seed.")]
SeedsOption = Annotated[int, typer.Option(metavar="N", help="Number of seeds.", min=1, max=1000)]
CompareOption = Annotated[bool, typer.Option("--compare", help="Run other systems on the same faults too.")]


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
    *,
    output: OutputFormat,
) -> None:
    """Replay months of a fleet through the product's own stages, with faults like those of a trace.

    Results are means over the seeds with 95 % confidence intervals. docs/default-policy.md lists the assumptions.
    """
    from faultbridge.domain.policy import Policy
    from faultbridge.lab.baselines import BASELINES, Baseline
    from faultbridge.lab.comparison import compare_systems, named_policy
    from faultbridge.lab.scenario import Scenario
    from faultbridge.lab.trace import DAY, read_part

    found = read_part(read_text(trace), trace_servers, part)
    hosts = max(1, nodes * 3 // 100) if pool is None else pool
    seconds = days * DAY if days else found.seconds
    scenarios = [Scenario(found, nodes, hosts, seconds, number) for number in range(seed, seed + seeds)]
    name, read = named_policy(None if policy is None else read_text(policy))
    systems: dict[str, Policy | Baseline] = {name: read, **(BASELINES if compare else {})}
    compared = compare_systems(scenarios, systems, _progress(output))
    show([one.document() for one in compared], COLUMNS, output)
    if compare and output.for_people:
        for one in BASELINES.values():
            notice(f"{one.name}: {one.approximated}")


def _progress(output: OutputFormat) -> Any:  # noqa: ANN401 - a function
    """Return the function that prints each tenth of the work on stderr."""
    printed = 0

    def progress(share: float) -> None:
        nonlocal printed
        if output.for_people and int(share * 10) > printed:
            printed = int(share * 10)
            notice(f"{printed * 10} % done")

    return progress
