"""Runs a sample of mutants of the code with mutmut and lists those that no test notices.

`[tool.mutmut]` in pyproject.toml names the parts of the code and their tests. The seed draws the mutants, those of
files that changed within a day first. Each survivor is a change that needs a test, or code that is not needed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "mutants"
MUTMUT = Path(sys.executable).parent / "mutmut"
SURVIVED, UNTESTED, NOT_RUN = 0, (5, 33), None
"""Exit codes of the tests as mutmut stores them."""


def draw(mutants: Mapping[str, Sequence[str]], changed: Collection[str], seed: int, count: int) -> list[str]:
    """Return up to this many mutants, given by file; those of changed files come first."""
    random = Random(seed)  # noqa: S311  # a sample, no secret
    first, rest = (
        [name for file in sorted(mutants) if (file in changed) is wanted for name in sorted(mutants[file])]
        for wanted in (True, False)
    )
    random.shuffle(first)
    random.shuffle(rest)
    return [*first, *rest][:count]


def results() -> dict[str, dict[str, int | None]]:
    """Return the exit code of the tests by file and mutant; None is a mutant that did not run."""
    return {
        path.relative_to(FOLDER).as_posix().removesuffix(".meta"): json.loads(path.read_text("utf-8"))[
            "exit_code_by_key"
        ]
        for path in sorted(FOLDER.rglob("*.meta"))
    }


def changed_files() -> set[str]:
    """Return the files that changed within a day; none outside a git checkout."""
    command = ["git", "log", "--since=1 day ago", "--name-only", "--format=", "--", "src"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  # fixed
    return set(listed.stdout.split())


def run(names: Sequence[str], end: float) -> None:
    """Run mutants until the time is over; mutmut first creates all mutants and finds the tests of each function."""
    with (FOLDER.parent / "build" / "mutants.log").open("a", encoding="utf-8") as log:
        command = [str(MUTMUT), "run", *names]
        with subprocess.Popen(  # noqa: S603  # fixed program
            command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
        ) as started:
            try:
                started.wait(max(end - time.monotonic(), 1))
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)  # with the processes that run tests


def report(drawn: Sequence[str]) -> bool:
    """Print the figures and the mutants that no test noticed; returns whether any mutant ran."""
    codes = {name: code for found in results().values() for name, code in found.items()}
    words: dict[int | None, str] = {SURVIVED: "survived", NOT_RUN: "not run within the time"}
    unnoticed = words | dict.fromkeys(UNTESTED, "no test runs it")
    counts = Counter(unnoticed.get(codes[name], "noticed") for name in drawn)
    print(", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    for name in sorted(name for name in drawn if codes[name] == SURVIVED):
        shown = subprocess.run([str(MUTMUT), "show", name], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603  # fixed program
        print(f"\n{shown.stdout.rstrip()}\nrepeat: .venv/bin/mutmut run {name}")
    for name in sorted(name for name in drawn if codes[name] in UNTESTED):
        print(f"no test runs {name}")
    return counts.total() > counts["not run within the time"]


def main() -> int:
    """Draw, run and list mutants."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(datetime.now(UTC).strftime("%Y%m%d")))
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--minutes", type=float, default=60)
    given = parser.parse_args()
    end = time.monotonic() + 60 * given.minutes
    (ROOT / "build").mkdir(exist_ok=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    run(["none"], end)
    names = {file: list(found) for file, found in results().items()}
    drawn = draw(names, changed_files(), given.seed, given.count)
    print(f"{len(drawn)} of {sum(map(len, names.values()))} mutants; repeat: make mutants SEED={given.seed}")
    if drawn:
        run(drawn, end)
    if drawn and report(drawn):
        return 0
    print("no mutant ran; see build/mutants.log", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
