"""The AWS cost of one case: a fatal fault, its replacement, its page and its entries.

    python -m tests.bench.case

It runs the simulated system with one node and no other records. The sweep runs each minute in any case, so a month of
idle sweeps is a separate row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random

from faultbridge.model.enums import Resolution
from faultbridge.serve.ingest.send import RawInput
from tests.bench.dynamodb_meter import PRICES, Bill, Meter
from tests.bench.report import Row, report
from tests.sim.environment.samples import SAMPLES
from tests.sim.fakes.seam import Call
from tests.sim.fault_injection import NO_FAULTS, FaultInjector, FaultKind, FaultProfile
from tests.sim.invariants.view import SystemView
from tests.sim.journal import Journal
from tests.sim.rest import come_to_rest
from tests.sim.schedule import Schedule
from tests.sim.simulated_system import REPAIRED, SimulatedSystem

NODE = "node-1"
SWEEP, AGENT = "sweep", "source"
SWEEPS_A_MONTH = 30 * 24 * 60


@dataclass(slots=True)
class CallCounter(FaultInjector):
    """Injects no fault; counts the invocations of each function and records their calls."""

    invocations: Counter[str] = field(default_factory=Counter)
    calls: list[Call] = field(default_factory=list)

    def before(self, call: Call) -> FaultKind | None:
        """Record a call of a function, except those of the agent."""
        if self.workers and self.workers[-1] != AGENT:
            self.calls.append(call)
        return None

    @contextmanager
    def worker(self, name: str) -> Iterator[None]:
        """Count an invocation."""
        self.invocations[name.partition("-")[0]] += 1
        with FaultInjector.worker(self, name):
            yield


def counted_system() -> tuple[SimulatedSystem, CallCounter]:
    """Return a simulated system with one node, and the counter of its calls."""
    made: list[CallCounter] = []

    def make_injector(profile: FaultProfile, random: Random, schedule: Schedule, journal: Journal) -> FaultInjector:
        made.append(CallCounter(profile, random, schedule, journal))
        return made[-1]

    system = SimulatedSystem(0, NO_FAULTS, make_injector=make_injector)
    system.build(nodes=1, watched=0, scheduler=True)
    system.pass_time(timedelta(minutes=1))
    return system, made[0]


def case() -> Row:
    """Measure one case from fault to resolution, including the sweeps during that time."""
    system, counter = counted_system()
    counter.invocations.clear()
    meter = Meter(counter.calls, system.ports.table)
    source, _, make = SAMPLES["xid 79"]
    system.workers.send(RawInput(source, REPAIRED, make(0, None), node=NODE))
    system.queue.poll_soon()
    come_to_rest(system)
    (closed,) = [state.case for state in SystemView(system).nodes if state.case is not None]
    assert closed.resolution is Resolution.REPLACED, closed
    meter.invocations = +(counter.invocations - Counter({AGENT: 1}))
    bill = meter.bill(messages=1)
    bill.billed["state_transition"] = sum(one.transitions for one in system.ports.workflow.executions.values())
    return row(
        "a case, from the fault to the verified successor",
        bill,
        note=f"with the {meter.invocations[SWEEP]} sweeps during that time",
    )


def month_of_sweeps() -> Row:
    """Measure the sweeps of an idle installation in a month."""
    system, counter = counted_system()
    meter = Meter(counter.calls, system.ports.table)
    system.workers.sweep()
    meter.invocations[SWEEP] = 1
    bill = meter.bill()
    for kind in list(bill.billed):
        bill.billed[kind] *= SWEEPS_A_MONTH
    return row("a month of idle sweeps, one a minute", bill, note="calls are those of one sweep")


def row(name: str, bill: Bill, note: str) -> Row:
    """Return a bill as a row of the report."""
    return {
        "what": name,
        "calls": bill.call_count,
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
    """Run all measurements and report them."""
    report("case", [case(), month_of_sweeps()])


if __name__ == "__main__":
    main()
