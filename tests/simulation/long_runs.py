"""Long runs of the simulation, with progress, that continue where they stopped: `python -m tests.simulation.long_runs`.

`seeds FIRST COUNT` runs fresh seeds. `orders POINTS` runs all orderings of two events, faults or operator orders, over
the first side effects of the two scenarios with orders. `list FILE` runs the red seeds of a file. Finished parts are
appended to a file in `build/simulation`, so that the same command continues an interrupted run. Exit code 1: an
invariant was violated.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from tests.conftest import ROOT
from tests.sim.exhaustive import APPROVAL, ORDERED_REPAIR
from tests.sim.history import collect_less
from tests.simulation.parallel import explore_part, violations_of
from tests.simulation.red_seeds import red_seeds, run_red_seeds

FOLDER = ROOT / "build" / "simulation"
EVENTS = 2
SEEDS_IN_PART = 5
T = TypeVar("T")


def seed_parts(first: int, count: int) -> list[tuple[str, range]]:
    """Return the parts of a run of seeds, a few seeds each, with their names."""
    starts = range(first, first + count, SEEDS_IN_PART)
    seeds = [range(start, min(start + SEEDS_IN_PART, first + count)) for start in starts]
    return [(f"seeds {one.start} to {one.stop - 1}", one) for one in seeds]


def order_parts(points: int) -> list[tuple[str, tuple[str, int, int, int]]]:
    """Return the parts of a run of orderings: each has its first event at one side effect."""
    scenarios = (ORDERED_REPAIR, APPROVAL)
    return [(f"{one.name}, {place} of {points}", (one.name, points, EVENTS, place))
            for one in scenarios for place in range(points + 1)]  # fmt: skip


def run_seeds(seeds: range) -> tuple[int, float, list[str]]:
    """Run seeds; returns their number, the processor time, and the violations."""
    start = time.process_time()
    found = [line.replace("\n", " ") for seed in seeds for line in violations_of(seed)]
    return len(seeds), time.process_time() - start, found


def run_orders(part: tuple[str, int, int, int]) -> tuple[int, float, list[str]]:
    """Run the orderings of a part; returns their number, the processor time, and the violations."""
    start = time.process_time()
    found = explore_part(part)
    return found.runs.total(), time.process_time() - start, [f"{given}: {line}" for given, line in found.broken]


def finished(file: Path) -> dict[str, tuple[int, float, int]]:
    """Return the finished parts of a run: number of runs, processor time, and number of violations of each."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    fields = (line.split("\t") for line in lines if not line.startswith(" "))
    return {name: (int(runs), float(seconds), int(broken)) for name, runs, seconds, broken in fields}


def run_parts(
    parts: Sequence[tuple[str, T]], work: Callable[[T], tuple[int, float, list[str]]], file: Path, processes: int
) -> int:
    """Run the parts that are not finished, and print the progress; returns the number of violations of all parts."""
    file.parent.mkdir(parents=True, exist_ok=True)
    done = finished(file)
    todo = [(name, part) for name, part in parts if name not in done]
    if not todo:
        sys.stdout.write(f"{progress(done, len(parts))}; all were finished before, see {file}\n")
    for name, (runs, seconds, broken) in _results(todo, work, processes):
        done[name] = runs, seconds, len(broken)
        with file.open("a", encoding="utf-8") as out:
            out.write(f"{name}\t{runs}\t{seconds:.1f}\t{len(broken)}\n")
            out.writelines(f"  {line}\n" for line in broken)
        sys.stdout.write("\n".join((progress(done, len(parts)), *broken, "")))
        sys.stdout.flush()
    return sum(broken for _, _, broken in done.values())


def _results(
    parts: Sequence[tuple[str, T]], work: Callable[[T], tuple[int, float, list[str]]], processes: int
) -> Iterator[tuple[str, tuple[int, float, list[str]]]]:
    """Yield the results of the parts as they finish; one process means this one."""
    if processes == 1:
        yield from ((name, work(part)) for name, part in parts)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=collect_less) as pool:
        pending = {pool.submit(work, part): name for name, part in parts}
        yield from ((pending[future], future.result()) for future in as_completed(pending))


def progress(done: Mapping[str, tuple[int, float, int]], parts: int) -> str:
    """Return the state of a run as one line."""
    runs, seconds, broken = (sum(column) for column in zip(*done.values(), strict=True))
    return f"{len(done)} of {parts} parts, {runs} runs, {seconds / runs:.2f} s of a core each, {broken} violations"


def main(arguments: Sequence[str]) -> int:
    """Run the named work; returns the exit code."""
    parser = argparse.ArgumentParser(prog="long_runs", description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    work = parser.add_subparsers(dest="work", required=True)
    seeds, orders = work.add_parser("seeds"), work.add_parser("orders")
    seeds.add_argument("first", type=int)
    seeds.add_argument("count", type=int)
    orders.add_argument("points", type=int)
    work.add_parser("list").add_argument("list", type=Path)
    given = parser.parse_args(arguments)
    if given.work == "list":
        parts = [(f"{one.defect} {one.seed}", [one]) for one in red_seeds(given.list)]
        file = FOLDER / f"{given.list.stem}-{sha256(given.list.read_bytes()).hexdigest()[:8]}.txt"
        return int(run_parts(parts, run_red_seeds, file, given.processes) > 0)
    if given.work == "seeds":
        file = FOLDER / f"seeds-{given.first}-{given.count}.txt"
        return int(run_parts(seed_parts(given.first, given.count), run_seeds, file, given.processes) > 0)
    file = FOLDER / f"orders-{given.points}.txt"
    return int(run_parts(order_parts(given.points), run_orders, file, given.processes) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
