"""`python -m tests.lab tune`: searches for a better policy on one part of a fault trace.

The other parts of the trace are not searched. They are used to judge the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from faultbridge.cli.commands.options import formatted_command, with_options
from faultbridge.cli.render.output import OutputFormat, examples, notice, show
from tests.lab.fleet_options import Fleet, fleet_options
from tests.lab.simulate_fleet import COLUMNS, progress_notices

TUNE_EPILOG = examples(
    "python -m tests.lab tune --trace trace.json --nodes 200 \\",
    "    --trials 100 --out tuned.yaml",
)


PARTS_HELP = "Parts of the trace: one is searched, the others judge."
KEEP_HELP = "Also try rules that do not isolate nodes with network or heartbeat faults."


@formatted_command
@with_options(fleet=fleet_options)
def tune_policy(
    fleet: Fleet,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the policy file.")],
    parts: Annotated[int, typer.Option(metavar="N", help=PARTS_HELP, min=2, max=12)] = 4,
    trials: Annotated[int, typer.Option(metavar="N", help="Policies to try.", min=1, max=10_000)] = 50,
    may_keep_in_service: Annotated[bool, typer.Option("--may-keep-in-service", help=KEEP_HELP)] = False,
    *,
    output: OutputFormat,
) -> None:
    """Search for a policy that loses fewer GPU-hours without more needless evictions, in simulation.

    The search uses the first part of a recorded fault trace. On the other parts, the result is compared with the
    packaged policy and with the policies of other systems. The file that the command writes states the evidence in
    comments. The command needs Optuna, which `make setup` installs.
    """
    from faultbridge.decide.backtest.plots import write_plots
    from tests.lab.baselines import BASELINES
    from tests.lab.comparison import compare_systems, documents_of, named_policy
    from tests.lab.tuning.evidence import tradeoff_plot, with_evidence
    from tests.lab.tuning.search import chosen, search

    searched, *held_back = [fleet.scenarios(f"{number}/{parts}") for number in range(1, parts + 1)]
    seed, progress = fleet.seeds.start, progress_notices(output)
    tried = search(searched, trials, seed, may_keep_in_service=may_keep_in_service, progress=progress)
    best = chosen(tried)
    policies = dict(named_policy(one) for one in (None, best.numbers.text()))
    compared = compare_systems([one for part in held_back for one in part], {**policies, **BASELINES})
    judged = documents_of(compared, policies, BASELINES)
    seeds = f"seeds {seed} to {fleet.seeds.stop - 1}"
    spans = f"part 1 of {parts} with {seeds}", f"parts 2 to {parts} with {seeds} each"
    out.write_text(with_evidence(best, judged, *spans), encoding="utf-8")
    if fleet.plots is not None:
        write_plots(fleet.plots, {"tradeoffs.svg": tradeoff_plot(tried)})
    show(judged, COLUMNS, output)
    if output.for_people:
        notice(f"{out}: policy {list(policies)[-1]}; nothing is published, `faultbridge policy put` does that")


def register(app: typer.Typer) -> None:
    """Add the command `tune` to `faultbridge policy`."""
    app.command("tune", epilog=TUNE_EPILOG)(tune_policy)
