"""`make fuzz`: mutated inputs are decoded or `Rejected` within a time limit; nothing else happens.

Every input is made from a seed: a sample, an example or a capture, damaged a few times by bytes, pieces of other
formats, cuts, repetitions. The source that it came from decodes it, and one other. A failure prints the command that
repeats it, and keeps the input.
`python -m tests.decoders.fuzz --inputs 200000 [--seed 1] [--jobs 2]`; exit code 1 when an input failed.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from faultbridge.decode import registry
from faultbridge.decode.frames.decoder import MAX_EVIDENCE, MAX_MESSAGE
from faultbridge.model.errors import Rejected
from tests.decoders.captures import HERE, SAMPLES, expected, faults_and_clears

MAX_BYTES = 16 * 1024
MAX_SECONDS = 2.0
# Resident memory of a process that decodes thousands of inputs; the code itself takes about 20 MB.
MAX_KILOBYTES = 512 * 1024
PIECES = [line.replace("\\n", "\n").encode() for line in (HERE / "pieces.txt").read_text("utf-8").splitlines()]
CAPTURES = HERE.parents[2] / "shared" / "samples"
LISTING = "expectations.toml"
LISTINGS = (LISTING, "expectations_platform.toml")
BATCH = 500


@dataclass
class Tally:
    """The results of many inputs."""

    inputs: int = 0
    decoded: int = 0
    rejected: int = 0
    failures: list[str] = field(default_factory=list)
    slowest: float = 0.0
    peak_kilobytes: int = 0

    def add(self, other: Tally) -> None:
        self.inputs += other.inputs
        self.decoded += other.decoded
        self.rejected += other.rejected
        self.failures += other.failures
        self.slowest = max(self.slowest, other.slowest)
        self.peak_kilobytes = max(self.peak_kilobytes, other.peak_kilobytes)


def corpus() -> list[tuple[str, bytes]]:
    """Return the bodies that inputs are made from, each with its source."""
    own = ((folder, one) for folder in (SAMPLES, HERE / "samples_platform") for one in expected(folder / LISTING))
    found = [(one.source, (folder / one.file).read_bytes()[:MAX_BYTES]) for folder, one in own]
    found += [(name, registry.get(name).example.encode()) for name in registry.names()]
    if CAPTURES.is_dir():
        captures = (one for listing in LISTINGS for one in expected(HERE / listing))
        found += [(one.source, (CAPTURES / one.file).read_bytes()[:MAX_BYTES]) for one in captures]
    return found


def mutated(random_: random.Random, body: bytes, others: list[tuple[str, bytes]]) -> bytes:
    """Damage a body one to six times."""
    damaged = bytearray(body[:MAX_BYTES])
    for _ in range(random_.randint(1, 6)):
        start = random_.randint(0, len(damaged))
        end = min(len(damaged), start + random_.choice((0, 1, 1, 2, 8, 40, 400)))
        match random_.randrange(7):
            case 0:
                damaged[start:end] = random_.choice(PIECES)
            case 1:
                damaged[start:end] = random_.randbytes(random_.choice((1, 2, 8)))
            case 2:
                damaged[start:end] = damaged[start:end] * random_.choice((2, 3, 50))
            case 3:
                del damaged[start:end]
            case 4:
                del damaged[start:]
            case 5:
                other = random_.choice(others)[1]
                place = random_.randint(0, len(other))
                damaged[start:end] = other[place : place + random_.choice((8, 80, 800))]
            case _:
                if start < len(damaged):
                    damaged[start] ^= 1 << random_.randrange(8)
    return bytes(damaged[: 4 * MAX_BYTES])


def outcome(source: str, body: bytes) -> bool:
    """Return True if a body was decoded and False if it was rejected; raise any other error."""
    try:
        found = registry.decode(source, body)
    except Rejected:
        return False
    for one in faults_and_clears(found):
        assert len(one.evidence.encode()) <= MAX_EVIDENCE
        assert len(one.message.encode()) <= MAX_MESSAGE
        assert all(isinstance(value, str) for value in one.attributes.values())
    return True


def batch(first: int, inputs: int) -> Tally:
    """Decode the inputs of some seeds."""
    others, names, tally = corpus(), registry.names(), Tally()
    for seed in range(first, first + inputs):
        random_ = random.Random(seed)
        source, body = random_.choice(others)
        damaged = mutated(random_, body, others)
        tally.inputs += 1
        for tried in (source, random_.choice(names)):
            start = time.process_time()
            try:
                decoded = outcome(tried, damaged)
            except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
                tally.failures.append(f"{tried}: {traceback.format_exc()}{_repeat(seed, damaged)}")
                continue
            elapsed = time.process_time() - start
            tally.slowest = max(tally.slowest, elapsed)
            if elapsed > MAX_SECONDS:
                tally.failures.append(f"{tried}: {elapsed:.1f} s\n{_repeat(seed, damaged)}")
            tally.decoded += decoded
            tally.rejected += not decoded
    tally.peak_kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if tally.peak_kilobytes > MAX_KILOBYTES:
        tally.failures.append(f"{tally.peak_kilobytes} KB in one process\n{_command(first, inputs)}")
    return tally


def _repeat(seed: int, body: bytes) -> str:
    path = Path(tempfile.gettempdir()) / f"faultbridge-fuzz-{seed}.bin"
    path.write_bytes(body)
    return f"{_command(seed, 1)}  # the input is {path}"


def _command(seed: int, inputs: int) -> str:
    return f"repeat: .venv/bin/python -m tests.decoders.fuzz --seed {seed} --inputs {inputs}"


def main() -> int:
    """Decode many inputs and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args()
    started, total = time.monotonic(), Tally()
    seeds = range(asked.seed, asked.seed + asked.inputs, BATCH)
    sizes = [min(BATCH, asked.seed + asked.inputs - first) for first in seeds]
    with ProcessPoolExecutor(asked.jobs) as pool:
        for tally in pool.map(batch, seeds, sizes):
            total.add(tally)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{total.inputs} inputs, {len(total.failures)} failed")
    for failure in total.failures[:10]:
        sys.stdout.write(f"{failure}\n")
    sys.stdout.write(
        f"{total.inputs} inputs in {time.monotonic() - started:.0f} s: {total.decoded} decoded, "
        f"{total.rejected} rejected, {len(total.failures)} failed; the slowest took {total.slowest * 1000:.0f} ms, "
        f"a process at most {total.peak_kilobytes / 1024:.0f} MB\n"
    )
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
