"""Digests of whole histories, to show that a change keeps them: `python -m tests.simulation.histories FIRST COUNT`.

Prints a line for each seed: its number, the digest, and the processor time in seconds. A faster simulation gives the
same digests as before: compare the first two columns of two outputs. The last line is the mean processor time.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator

from tests.sim.history import STEPS, build_system, collect_less, draw_actions, play_on
from tests.sim.simulated_ports import SimulatedPorts


def digest(seed: int, steps: int = STEPS) -> str:
    """Return a hash of everything that a run did: journal, calls, each version of each item, events and pages."""
    system = build_system(seed)
    history = play_on(system, seed, draw_actions(seed, steps))
    hashed = hashlib.sha256(history.digest.encode())
    for part in (history.broken, history.injected, system.seam.calls_left, *_effects(system.ports)):
        hashed.update(repr(part).encode())
    return hashed.hexdigest()


def _effects(ports: SimulatedPorts) -> Iterator[object]:
    for change in ports.table.stream:
        new = None if change.new is None else sorted(change.new.items())
        yield change.event, change.key, new, change.transaction, change.at
    yield from ports.bus.accepted
    yield from ports.pager.sent


def main(first: int, count: int) -> None:
    """Print the digests of some seeds."""
    collect_less()
    total = 0.0
    for seed in range(first, first + count):
        start = time.process_time()
        found = digest(seed)
        total += (seconds := time.process_time() - start)
        sys.stdout.write(f"{seed} {found} {seconds:.3f}\n")
    sys.stdout.write(f"mean {total / count:.3f}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
