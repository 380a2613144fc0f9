"""What one case costs: a fatal fault, its repair by replacement, its page, all of the record, in calm weather.

    python -m tests.bench.case

The simulation's own world, with one node and with nobody else's records. The minute's sweep goes on whatever happens:
its rounds stand in a row of their own, at what a month of them costs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from faultbridge.domain.cases import Resolution
from faultbridge.ingest.send import RawInput
from faultbridge.simulation.chaos import Chaos
from faultbridge.simulation.fakes.seams import Call
from faultbridge.simulation.history import calm_down
from faultbridge.simulation.journal import Journal
from faultbridge.simulation.samples import SAMPLES
from faultbridge.simulation.scene import ACTING, Scene
from faultbridge.simulation.schedule import Schedule
from faultbridge.simulation.view import View
from faultbridge.simulation.weather import CALM, FaultKind, Weather
from tests.bench.meter import PRICES, Bill, Meter
from tests.bench.report import Row, report

NODE = "node-1"
SWEEP, AGENT = "sweep", "source"
SWEEPS_A_MONTH = 30 * 24 * 60


@dataclass(slots=True)
class Watching(Chaos):
    """Breaks nothing, and counts how often each function is called and which calls each makes."""

    invocations: Counter[str] = field(default_factory=Counter)
    calls: list[Call] = field(default_factory=list)

    def before(self, call: Call) -> FaultKind | None:
        """Note a call of a function."""
        if self._working and self._working[-1] != AGENT:
            self.calls.append(call)
        return None

    @contextmanager
    def worker(self, name: str) -> Iterator[None]:
        """Count an invocation."""
        self.invocations[name.partition("-")[0]] += 1
        with Chaos.worker(self, name):
            yield


def watched() -> tuple[Scene, Watching]:
    """A world that somebody watches."""
    made: list[Watching] = []

    def watching(weather: Weather, random: Random, schedule: Schedule, journal: Journal) -> Chaos:
        made.append(Watching(weather, random, schedule, journal))
        return made[-1]

    scene = Scene(0, CALM, chaos=watching)
    scene.build(nodes=1, watched=0, scheduler=True)
    scene.pass_time(timedelta(minutes=1))
    return scene, made[0]


def case() -> Row:
    """One fault to its end, with the sweeps that ran meanwhile."""
    scene, watching = watched()
    watching.invocations.clear()
    meter = Meter(watching.calls, scene.ports.table)
    source, make = SAMPLES["xid 79"]
    scene.workers.send(RawInput(source, ACTING, make(0, None), node=NODE))
    scene.queue.wake()
    calm_down(scene)
    (closed,) = [state.case for state in View(scene).nodes if state.case is not None]
    assert closed.resolution is Resolution.REPLACED, closed
    meter.invocations = +(watching.invocations - Counter({AGENT: 1}))
    bill = meter.bill(messages=1)
    bill.billed["state_transition"] = sum(one.transitions for one in scene.ports.workflow.executions.values())
    return row(
        "a case, from the fault to the verified successor",
        bill,
        note=f"with the {meter.invocations[SWEEP]} sweeps meanwhile",
    )


def month_of_sweeps() -> Row:
    """The sweep of an idle installation, each minute of a month."""
    scene, watching = watched()
    meter = Meter(watching.calls, scene.ports.table)
    scene.workers.sweep()
    meter.invocations[SWEEP] = 1
    bill = meter.bill()
    for kind in list(bill.billed):
        bill.billed[kind] *= SWEEPS_A_MONTH
    return row("a month of idle sweeps, one a minute", bill, note="calls are those of one sweep")


def row(what: str, bill: Bill, note: str) -> Row:
    """State a bill."""
    return {
        "what": what,
        "calls": bill.ours,
        "invocations": bill.invocations.total(),
        "billed requests": bill.requests,
        "USD": f"{bill.dollars:.5f}",
        "note": note,
        "by call": dict(sorted(bill.calls.items())),
        "by function": dict(sorted(bill.invocations.items())),
        "by unit": dict(sorted(bill.billed.items())),
        "prices": PRICES,
    }


def main() -> None:
    """Measure and report."""
    report("case", [case(), month_of_sweeps()])


if __name__ == "__main__":
    main()
