"""The cost of `faultbridge explain` on the logs of a job, on one core: time for 50 MB, time and memory for 1 GB.

The log is generated from a seed: lines of progress of three frameworks, NCCL's own lines, an error that is retried in
one line of ten thousand, and the error that ends the job. A second log has an error in every line.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain, repeat

from faultbridge.decode.frames.decoder import Hints
from faultbridge.explain.signals.read_files import InputFile, read_files
from faultbridge.explain.signals.signal import ReadContext
from faultbridge.explain.verdict.mechanisms import packaged_book, packaged_weights
from faultbridge.explain.verdict.verdict import decide

ROUNDS = 5
MEBIBYTE = 1024 * 1024
MAX_SECONDS = 1.0
LINES = (
    " iteration {n:8d}/  500000 | elapsed time per iteration (ms): 7613.1 | lm loss: 7.3345E-01 | grad norm: 0.752 |",
    "[2026-02-03 04:05:{s:02d},123][INFO][trainer.py:88] step {n} loss=2.1234 grad_norm=0.752 lr=3e-4 tokens/s=98765",
    "{{'loss': 2.1234, 'grad_norm': 1.4142, 'learning_rate': 2.04e-06, 'epoch': 0.01, 'step': {n}}}",
    "n-7:3468:3905 [4] NCCL INFO Channel 07/0 : 3[3] -> 4[4] via P2P/CUMEM/read",
)
RETRIED = "[2026-02-03 04:05:{s:02d},123] WARNING retry: OSError: [Errno 116] Stale file handle: '/fsx/{n}'"
END = b"[2026-02-03 05:05:06,123] [rank3]: KeyError: 'tokens'\n"


def piece(share: float) -> bytes:
    """Return one mebibyte of log; a share of its lines are errors that the program retries."""
    source, lines, size = random.Random(1), [], 0
    while size < MEBIBYTE:
        text = RETRIED if source.random() < share else source.choice(LINES)
        lines.append(text.format(n=source.randrange(500_000), s=source.randrange(60)))
        size += len(lines[-1]) + 1
    return ("\n".join(lines) + "\n").encode()


def explained(pieces: Iterable[bytes]) -> str:
    """Return the verdict on one log."""
    book = packaged_book()
    file = InputFile("job.err", lambda: iter(pieces), is_job_log=True)
    evidence = read_files([file], ReadContext(book.patterns, book.roles, {}, Hints()))
    return decide(evidence, book.mechanisms, packaged_weights(), {}).outlook


def log(share: float, mebibytes: int) -> Iterator[bytes]:
    """Yield a log of this size, with its end."""
    return chain(repeat(piece(share), mebibytes), [END])


def seconds(share: float, mebibytes: int, rounds: int) -> float:
    """Return the best processor time of several rounds."""
    times = []
    for _ in range(rounds):
        pieces = log(share, mebibytes)
        start = time.process_time()
        assert explained(pieces) == "STOP"
        times.append(time.process_time() - start)
    return min(times)


def main() -> int:
    """Print the figures; exit code 1 if 50 MB take more than a second."""
    usual = seconds(0.0001, 48, ROUNDS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"50 MB with an error in 10,000 lines: {usual:.2f} s")
    print(f"50 MB with an error in every line:   {seconds(1.0, 48, 1):.2f} s")
    print(f"1 GB with an error in 10,000 lines:  {seconds(0.0001, 1024, 1):.2f} s")
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"growth of memory for 1 GB:           {growth / 1024:.0f} MiB")
    return 0 if usual <= MAX_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
