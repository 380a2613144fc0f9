"""Run the smoke test: python -m infra.smoke [--name NAME] [--packaged FOLDER] [--cleanup NAME] [--hours N] [--json].

Prints the plan and stops, unless the environment variable FAULTBRIDGE_SMOKE is `run`. Exit code 1: a step failed, or
something that was created is left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from faultbridge.adapters.aws.clients import Clients
from faultbridge.install.packaging import INDEX_NAME
from faultbridge.local.stack.deployment import PARAMETERS as EMULATED
from faultbridge.model.errors import FaultbridgeError
from infra.smoke.cleanup import clean_up, remaining
from infra.smoke.plan import CLEANUP_SECONDS, MAX_SECONDS, PARAMETERS, STEP_SECONDS, cost_bound, plan_lines
from infra.smoke.run import Smoke, SmokeFailed, checked_name, emulated
from infra.smoke.steps import SOAK_STEPS, STEPS, Step

ERRORS = (FaultbridgeError, ClientError, BotoCoreError, OSError, KeyboardInterrupt)
SWITCH = "FAULTBRIDGE_SMOKE"


@dataclass(frozen=True, slots=True)
class Row:
    """The result of one step: `passed`, `failed`, `only on AWS` or `not reached`, and its duration in seconds."""

    step: str
    shows: str
    result: str
    seconds: float = 0.0
    detail: str = ""


def main(arguments: Sequence[str]) -> int:
    """Print the plan. If the variable `SWITCH` is `run`, run it or clean up. Return the exit code."""
    options = _options(arguments)
    name = checked_name(options.cleanup or options.name or f"fb-smoke-{int(time.time()):x}")
    parameters = {**PARAMETERS, **EMULATED} if emulated() else PARAMETERS
    steps = (*STEPS, *SOAK_STEPS) if options.hours else STEPS
    print(*plan_lines(name, parameters, steps, options.hours, emulated=emulated()), sep="\n", file=sys.stderr)
    if os.environ.get(SWITCH) != "run":
        print(f"\nNothing was done. {SWITCH}=run runs this plan.", file=sys.stderr)
        return 0
    calls: set[str] = set()
    clients = Clients(observe=lambda service, operation: calls.add(f"{service}:{operation}"))
    deadline = time.monotonic() + STEP_SECONDS
    smoke = Smoke(name, clients, deadline, options.packaged, parameters, hours=options.hours)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    if not options.cleanup:
        check_start(smoke)
    rows: list[Row] = []
    try:
        rows.extend([] if options.cleanup else run(smoke, steps))
    finally:
        rows.append(removed(smoke))
    report(rows, calls, options.hours, as_json=options.json)
    return 0 if all(row.result in {"passed", "only on AWS"} for row in rows) else 1


def check_start(smoke: Smoke) -> None:
    """Raise SmokeFailed if the caller is not a role, the template is not built, or the name is in use."""
    if not emulated() and ":" not in smoke.clients.sts.get_caller_identity()["UserId"]:
        raise SmokeFailed("the caller is not a role; a cluster lists trusted senders by role, so assume one")
    if not (smoke.packaged / INDEX_NAME).exists():
        raise SmokeFailed(f"nothing to deploy in {smoke.packaged}; run `make archives`")
    if in_use := remaining(smoke):
        raise SmokeFailed(
            f"{smoke.name} is in use: {in_use[0][0].name} {in_use[0][1]}; use --cleanup or another --name"
        )


def run(smoke: Smoke, steps: Sequence[Step]) -> list[Row]:
    """Run the steps in order; the first failure ends the run."""
    rows: list[Row] = []
    for step in steps:
        failed = any(row.result == "failed" for row in rows)
        rows.append(Row(step.name, step.shows, "not reached") if failed else _run(smoke, step))
        print(f"{rows[-1].result:<12}{step.name:<14}{rows[-1].seconds:6.1f} s  {rows[-1].detail}", file=sys.stderr)
    return rows


def removed(smoke: Smoke) -> Row:
    """Remove everything and return the row of the removal."""
    started = time.monotonic()
    smoke.deadline = started + CLEANUP_SECONDS
    left = clean_up(smoke)
    detail = f"left: {', '.join(left)}; run again with --cleanup {smoke.name}" if left else "nothing is left"
    took = time.monotonic() - started
    return Row("cleanup", "everything that was created is removed", "failed" if left else "passed", took, detail)


def report(rows: Sequence[Row], calls: set[str], hours: float = 0, *, as_json: bool) -> None:
    """Print the table of the steps, or one JSON document."""
    if as_json:
        print(json.dumps({"steps": [asdict(row) for row in rows], "calls": sorted(calls)}, indent=2))
        return
    for row in rows:
        print(f"{row.step:<14}{row.result:<13}{row.seconds:7.1f} s  {row.shows}: {row.detail}")
    total = sum(row.seconds for row in rows)
    most = MAX_SECONDS + 3600 * hours
    print(f"{total:.0f} s of at most {most:.0f} s; at most {cost_bound(hours):.2f} USD")


def _run(smoke: Smoke, step: Step) -> Row:
    """Run one step; an error becomes a row, so that the removal follows."""
    if step.only_on_aws and emulated():
        return Row(step.name, step.shows, "only on AWS")
    started = time.monotonic()
    try:
        result, detail = "passed", step.run(smoke)
    except ERRORS as error:
        result, detail = "failed", f"{type(error).__name__}: {error}"
    return Row(step.name, step.shows, result, round(time.monotonic() - started, 1), detail)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m infra.smoke", description=__doc__)
    parser.add_argument("--name", help="name of the new stack; default: a new one")
    parser.add_argument("--packaged", type=Path, default=Smoke.packaged, help="what `make archives` wrote")
    parser.add_argument("--cleanup", metavar="NAME", help="only remove what a run with this stack name left")
    parser.add_argument("--hours", type=float, default=0, help="afterwards, run 40 nodes with the agent for so long")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except FaultbridgeError as failure:
        sys.exit(f"smoke: {failure}")
