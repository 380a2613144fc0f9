"""`python -m tests.lab fleet`: replays months of a fleet under a policy.

With `--compare`, it also runs the rules of other repair systems (baselines) on the same faults, and compares the
results.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import formatted_command, read_text, with_options
from faultbridge.cli.render.output import Columns, OutputFormat, examples, notice, show
from faultbridge.decide.backtest.plots import write_plots
from faultbridge.model.policy import Policy
from tests.lab.baselines import BASELINES, Baseline
from tests.lab.comparison import PACKAGED, compare_systems, documents_of, named_policy
from tests.lab.fleet_options import Fleet, fleet_options
from tests.lab.plots import comparison_plots

EPILOG = examples(
    "python -m tests.lab fleet --trace trace.json --nodes 400 --days 30",
    "python -m tests.lab fleet --trace trace.json --nodes 200 --compare",
    "python -m tests.lab fleet --trace trace.json --nodes 200 --compare \\",
    "    --plots charts",
)


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


COLUMNS: Columns = {
    "SYSTEM": lambda one: one["system"],
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
    list[str] | None,
    typer.Option(metavar="FILE", help="Policy file, or `packaged`; may be repeated. Default: packaged."),
]
DaysOption = Annotated[
    float | None, typer.Option(metavar="D", help="Days to replay. Default: those of the trace.", min=0.1, max=3660)
]
PartOption = Annotated[
    list[str] | None,
    typer.Option(metavar="N/OF", help="Use one of several equal parts of the trace, such as 1/4; may be repeated."),
]
CompareOption = Annotated[
    bool, typer.Option("--compare", help="Also simulate the repair rules of other systems on the same faults.")
]


@formatted_command
@with_options(fleet=fleet_options)
def simulate_fleet(
    fleet: Fleet,
    policy: PolicyOption = None,
    days: DaysOption = None,
    part: PartOption = None,
    compare: CompareOption = False,
    *,
    output: OutputFormat,
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
        documents += documents_of(compare_systems(scenarios, systems, progress_notices(output)), share)
    show(documents, COLUMNS, output)
    if fleet.plots is not None:
        write_plots(fleet.plots, comparison_plots(documents))
    if compare and output.for_people:
        for one in BASELINES.values():
            notice(f"{one.name}: {one.approximated}")


def progress_notices(output: OutputFormat) -> Any:
    """Return a function that prints a notice on stderr after each tenth of the work.

    The argument of the function is the share of the work that is done, from 0 to 1. With JSON output, nothing is
    printed.
    """
    printed = 0

    def progress(share: float) -> None:
        nonlocal printed
        if output.for_people and int(share * 10) > printed:
            printed = int(share * 10)
            notice(f"{printed * 10} % done")

    return progress
