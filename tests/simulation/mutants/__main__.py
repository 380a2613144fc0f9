"""Plays all mutants on all cores and prints the score: `python -m tests.simulation.mutants [part of a file's name]`.

Exit code 1 when fewer than 95 in a hundred are noticed, or when one lives that `known.json` does not explain.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.simulation.mutants.catalogue import Mutant, mutants

LEAST = 0.95
# One file of each group of unit tests: without a change nobody may notice anything.
SOUND = ("stages/fold.py", "services/append.py", "services/pager/deliver.py", "services/replacement/work.py")
LONGEST = 240
KNOWN = Path(__file__).parent / "known.json"


def play(mutant: Mutant) -> tuple[Mutant, str | None]:
    """What notices a mutant, or None."""
    command = [sys.executable, "-m", "tests.simulation.mutants.worker", mutant.file, str(mutant.number)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return mutant, "it never ends"
    said = (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1]
    return mutant, said if done.returncode else None


def main(part: str) -> int:
    """Play those of the files whose name has the part."""
    todo = [mutant for mutant in mutants() if part in mutant.file]
    for file in SOUND:
        unchanged = play(Mutant(file, -1, 0, "unchanged", ""))[1]
        if unchanged is not None:
            print(f"nothing is broken, and yet: {unchanged}")
            return 2
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(_told, todo))
    alive = [mutant for mutant, what in results if what is None]
    known = json.loads(KNOWN.read_text(encoding="utf-8")) if KNOWN.exists() else {}
    print(f"{len(results) - len(alive)} of {len(results)} noticed")
    unexplained = [mutant for mutant in alive if mutant.key not in known]
    for mutant in alive:
        print(f"alive: {mutant.name}: {known.get(mutant.key, 'NOT EXPLAINED')}")
    return int(bool(unexplained) or len(alive) > (1 - LEAST) * len(results))


def _told(mutant: Mutant) -> tuple[Mutant, str | None]:
    found = play(mutant)
    print(f"{'alive  ' if found[1] is None else 'noticed'} {mutant.name} | {found[1] or ''}"[:240], flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
