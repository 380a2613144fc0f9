"""`python -m tests.lab fleet`: replays months of a fleet under a policy.

With `--compare`, it also runs the rules of other repair systems (baselines) on the same faults, and compares the
results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from faultbridge.cli.commands.options import formatted_command, read_text, with_options
from faultbridge.cli.render.output import Columns, OutputFormat, examples, notice, show
from tests.lab.fleet_options import Fleet, fleet_options

PACKAGED = "packaged"
EPILOG = examples(
    "python -m tests.lab fleet --trace trace.json --nodes 400 --days 30",
    "python -m tests.lab fleet --trace trace.json --nodes 200 --compare",
    "python -m tests.lab fleet --trace trace.json --nodes 200 --compare \\",
    "    --plots charts",
)


def _number(name: str, digits: int = 0) -> Any:
    def cell(one: Any) -> str:
        margin = one["margins"].get(name)
        text = f"{one[name]:,.{digits}f}"
        return f"{text} +-{margin:,.{digits}f}" if margin is not None else text

    return cell


COLUMNS: Columns = {
    "SYSTEM": lambda one: one["system"],
    "LOST GPU-H": _number("lost_gpu_hours"),
    "GOODPUT": _number("goodput", 4),
    "LOST BY JOBS": _number("lost_by_jobs"),
    "INTERRUPTIONS": _number("interruptions"),
    "NEEDLESS EVICTIONS": _number("needless_evictions"),
    "REPLACED": _number("replacements"),
    "NEEDLESS REPLACED": _number("needless_replacements"),
    "PAGES/WEEK": _number("pages_a_week", 1),
}


PolicyOption = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE", help=f"Policy file, or `{PACKAGED}`; may be repeated. Default: {PACKAGED}."),
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
    from faultbridge.decide.backtest.plots import write_plots
    from faultbridge.model.policy import Policy
    from tests.lab.baselines import BASELINES, Baseline
    from tests.lab.comparison import compare_systems, documents_of, named_policy
    from tests.lab.plots import comparison_plots

    scenarios = [one for name in part or (None,) for one in fleet.scenarios(name, days)]
    policies = dict(named_policy(None if one == PACKAGED else read_text(one)) for one in policy or (PACKAGED,))
    systems: dict[str, Policy | Baseline] = {**policies, **(BASELINES if compare else {})}
    compared = compare_systems(scenarios, systems, progress_notices(output))
    documents = documents_of(compared, policies, BASELINES if compare else ())
    show(documents, COLUMNS, output)
    if fleet.plots is not None:
        write_plots(fleet.plots, comparison_plots(documents, "faultbridge"))
    if compare and output.for_people:
        for one in BASELINES.values():
            notice(f"{one.name}: {one.approximated}")
        _explain(documents)


def _explain(documents: Sequence[Mapping[str, Any]]) -> None:
    """For each policy, print its saving against the best baseline, and whether it meets the goal."""
    from tests.lab.comparison import GOAL

    for document in documents:
        saving = document["saving"]
        if saving is None:
            continue
        spread = f" +-{saving['margin'] * 100:.0f} %" if saving["margin"] is not None else ""
        words = "meets" if saving["meets_goal"] else "does not meet"
        notice(
            f"{document['system']} saves {saving['share'] * 100:.0f} %{spread} of the GPU-hours that"
            f" {saving['against']} loses: it {words} the goal of {GOAL:.0%} at no more needless evictions"
        )


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
