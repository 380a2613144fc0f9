"""`faultbridge policy tune`: searches for a better policy and judges it on parts of the trace that were held back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from faultbridge.cli.commands.offline.simulate_fleet import (
    COLUMNS,
    NodesOption,
    PlotsOption,
    PoolOption,
    SeedOption,
    SeedsOption,
    ServersOption,
    TraceOption,
    progress_notices,
)
from faultbridge.cli.commands.options import read_text
from faultbridge.cli.render.format_options import formatted_command
from faultbridge.cli.render.output import OutputFormat, examples, notice, show

TUNE_EPILOG = examples(
    "faultbridge policy tune --trace trace.json --nodes 60 --trials 100 --out tuned.yaml",
)


@formatted_command
def tune_policy(
    trace: TraceOption,
    nodes: NodesOption,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the policy file.")],
    parts: Annotated[
        int,
        typer.Option(metavar="N", help="Parts of the trace: the first is searched, the others judge.", min=2, max=12),
    ] = 4,
    trials: Annotated[int, typer.Option(metavar="N", help="Policies to try.", min=1, max=10_000)] = 50,
    may_keep_in_service: Annotated[
        bool,
        typer.Option(
            "--may-keep-in-service", help="Also try rules that do not isolate nodes with network or heartbeat faults."
        ),
    ] = False,
    pool: PoolOption = None,
    trace_servers: ServersOption = None,
    seed: SeedOption = 1,
    seeds: SeedsOption = 3,
    plots: PlotsOption = None,
    *,
    output: OutputFormat,
) -> None:
    """Search for a policy that loses fewer GPU-hours at no more needless evictions, on simulated fleets.

    The search sees the first part of the trace. The other parts judge the result against the packaged policy and other
    systems. The policy file has the evidence in comments. Needs `pip install 'faultbridge[tune]'`.
    """
    from faultbridge.lab.baselines import BASELINES
    from faultbridge.lab.comparison import compare_systems, named_policy, savings_of
    from faultbridge.lab.scenario import Scenario
    from faultbridge.lab.trace import read_part
    from faultbridge.plots.results import write_plots
    from faultbridge.tuning.evidence import tradeoff_plot, with_evidence
    from faultbridge.tuning.search import chosen, search

    text = read_text(trace)
    hosts = max(1, nodes * 3 // 100) if pool is None else pool
    found = [read_part(text, trace_servers, f"{number}/{parts}") for number in range(1, parts + 1)]
    scenarios = [
        [Scenario(one, nodes, hosts, one.seconds, number) for number in range(seed, seed + seeds)] for one in found
    ]
    tried = search(
        scenarios[0], trials, seed, may_keep_in_service=may_keep_in_service, progress=progress_notices(output)
    )
    best = chosen(tried)
    policies = dict(named_policy(one) for one in (None, best.numbers.text()))
    compared = compare_systems([one for part in scenarios[1:] for one in part], {**policies, **BASELINES})
    savings = savings_of(compared, policies, BASELINES)
    judged = [{**one.document(), "saving": savings.get(one.name)} for one in compared]
    spans = f"part 1 of {parts} with {seeds} seeds", f"parts 2 to {parts} with {seeds} seeds each"
    out.write_text(with_evidence(best, judged, *spans), encoding="utf-8")
    if plots is not None:
        write_plots(plots, {"tradeoffs.svg": tradeoff_plot(tried)})
    show(judged, COLUMNS, output)
    if output.for_people:
        notice(f"{out}: policy {list(policies)[-1]}; nothing is published, `faultbridge policy put` does that")


def register(app: typer.Typer) -> None:
    """Add the command to `faultbridge policy`."""
    app.command("tune", epilog=TUNE_EPILOG)(tune_policy)
