"""The cost of decoding on one core; each figure is the best of several rounds in processor time.

Inputs: a kernel log of 100 MB with one Xid in a thousand lines, compared with a plain `for line in file` loop over the
same file; a log of Xids only; the nvidia-smi XML of eight GPUs with as many elements as driver 580 writes; each crafted
input of `tests/decoders/nonsense.py` of 64 KB with each decoder. The log is generated from a seed, with the usual lines
of a GPU node (audit, container bridges, links, mounts, switches).
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from heapq import nlargest
from itertools import product
from pathlib import Path

from faultbridge.decode import registry
from faultbridge.model.errors import Rejected
from tests.decoders.nonsense import sized

ROUNDS = 7
LOG_BYTES = 100_000_000
XID_LINES = 100_000
PIECE = 64 * 1024
SHARE = 0.001
MIN_RATIO = 0.5
MIN_XIDS = 100_000.0
MAX_XML_MS = 3.0
MAX_CRAFTED_MS = 100.0
REPEATED = 10  # so many of the slowest inputs are timed again in several rounds
GPUS = 8
ORDINARY = (
    'audit: type=1400 audit(1700000000.123:{n}): apparmor="ALLOWED" operation="open" pid={n}',
    "IPv6: ADDRCONF(NETDEV_CHANGE): eth{d}: link becomes ready",
    "docker0: port {d}({veth}) entered forwarding state",
    "systemd[1]: Started Session {n} of user ubuntu.",
    "nvidia-nvswitch3: open (major=508)",
    "perf: interrupt took too long ({n} > 2500), lowering kernel.perf_event_max_sample_rate to 79000",
    "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing",
    "EXT4-fs (nvme0n1p{d}): mounted filesystem with ordered data mode. Opts: (null)",
)
XID = "NVRM: Xid (PCI:0000:{d:02x}:00): 13, pid={n}, name=python3, Graphics SM Warp Exception on (GPC {d}, TPC 2, SM 1)"


def lines(seed: int, share: float) -> Iterator[str]:
    """Yield log lines endlessly; a share of them are Xids."""
    source, uptime = random.Random(seed), 0.0
    interfaces = [f"veth{source.randrange(16**7):07x}" for _ in range(400)]
    while True:
        uptime += source.random() / 50
        text = XID if source.random() < share else source.choice(ORDINARY)
        line = text.format(n=source.randrange(1, 99999), d=source.randrange(1, 9), veth=source.choice(interfaces))
        yield f"[{uptime:12.6f}] {line}\n"


def write_log(path: Path) -> int:
    """Write the log file; returns its number of lines."""
    size = count = 0
    with path.open("w", encoding="utf-8") as stream:
        for line in lines(1, SHARE):
            size += stream.write(line)
            count += 1
            if size >= LOG_BYTES:
                return count
    return count


def xml() -> bytes:
    """Return the nvidia-smi XML of eight GPUs as driver 580 writes it, about 200 KB."""
    clocks = "".join(f"<supported_graphics_clock>{n} MHz</supported_graphics_clock>\n" for n in range(1980, 210, -6))
    names = (
        "volatile",
        "aggregate",
        "remapped_rows",
        "clocks_event_reasons",
        "fabric",
        "temperature",
        "power_smoothing",
    )
    filler = "".join(
        f"<section_{n}>\n" + "".join(f"<field_{n}_{m}>N/A</field_{n}_{m}>\n" for m in range(6)) + f"</section_{n}>\n"
        for n in range(32)
    )
    health = (
        "<gpu_recovery_action>None</gpu_recovery_action><fan_speed>N/A</fan_speed><ecc_errors><volatile>"
        "<sram_uncorrectable_parity>0</sram_uncorrectable_parity><dram_uncorrectable>0</dram_uncorrectable></volatile>"
        "<aggregate><sram_threshold_exceeded>No</sram_threshold_exceeded></aggregate></ecc_errors><remapped_rows>"
        "<remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>"
        "<fabric><state>Completed</state><status>Success</status><health><summary>Healthy</summary></health></fabric>"
    )
    reasons = "".join(
        f"<clocks_event_reason_{name}>Not Active</clocks_event_reason_{name}>\n"
        for name in (
            "gpu_idle",
            "sw_power_cap",
            "hw_slowdown",
            "hw_thermal_slowdown",
            "hw_power_brake_slowdown",
            *names,
        )
    )
    body = f"{health}<clocks_event_reasons>{reasons}</clocks_event_reasons>{filler}"
    body += f"<supported_clocks>{clocks}</supported_clocks>"
    gpus = "".join(f'<gpu id="00000000:{n:02X}:00.0"><uuid>GPU-{n}</uuid>{body}</gpu>\n' for n in range(1, GPUS + 1))
    return f"<nvidia_smi_log><attached_gpus>{GPUS}</attached_gpus>{gpus}</nvidia_smi_log>".encode()


def best(work: Callable[[], object]) -> float:
    """Return the processor time of the fastest round, in seconds."""
    return min(elapsed(work) for _ in range(ROUNDS))


def best_of_each(*works: Callable[[], object]) -> tuple[float, ...]:
    """Return the fastest time of each function; they alternate, so that a slow moment affects all."""
    rounds = [[elapsed(work) for work in works] for _ in range(ROUNDS)]
    return tuple(min(times) for times in zip(*rounds, strict=True))


def elapsed(work: Callable[[], object]) -> float:
    """Return the processor time of one round, in seconds."""
    start = time.process_time()
    work()
    return time.process_time() - start


def loop(path: Path) -> int:
    """Read a file line by line and count the lines."""
    count = 0
    with path.open(encoding="utf-8") as stream:
        for _ in stream:
            count += 1
    return count


def decode(path: Path) -> int:
    """Decode a log in pieces, as the command line does."""
    with path.open("rb") as stream:
        return len(registry.read_pieces("kernel-log", iter(lambda: stream.read(PIECE), b"")).observations)


def slowest_crafted() -> tuple[str, str, float]:
    """Return the decoder, the input and the seconds of the slowest of all crafted inputs."""
    inputs = sized(PIECE)

    def attempt(source: str, name: str) -> None:
        with suppress(Rejected):
            registry.decode(source, inputs[name])

    pairs = product(registry.names(), inputs)
    slowest = nlargest(REPEATED, pairs, key=lambda pair: elapsed(partial(attempt, *pair)))
    return max(((*pair, best(partial(attempt, *pair))) for pair in slowest), key=lambda one: one[2])


def main() -> int:
    """Print the figures; returns 1 if one misses its limit."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "kernel.log"
        count = write_log(path)
        plain, decoded = best_of_each(lambda: loop(path), lambda: decode(path))
    generator = lines(2, 1.0)
    xids = "".join(next(generator) for _ in range(XID_LINES)).encode()
    storm = XID_LINES / best(lambda: registry.decode("kernel-log", xids))
    document = xml()
    xml_ms = best(lambda: registry.decode("nvidia-smi-xml", document)) * 1000
    source, name, crafted = slowest_crafted()
    ratio = plain / decoded
    sys.stdout.write(f"kernel log: {count / decoded / 1e6:.2f} M lines/s, a plain loop {count / plain / 1e6:.2f} M\n")
    sys.stdout.write(f"nvidia-smi XML: {len(document) / 1000:.0f} KB, {xml_ms:.2f} ms\n")
    sys.stdout.write(f"slowest crafted input of {PIECE // 1024} KB: {name} with {source}, {crafted * 1000:.0f} ms\n")
    figures = (
        ("kernel log, share of a plain loop's lines/s", ratio, MIN_RATIO),
        ("Xid lines alone, lines/s", storm, MIN_XIDS),
        (f"nvidia-smi XML of {GPUS} GPUs, documents/s", 1000 / xml_ms, 1000 / MAX_XML_MS),
        (f"slowest crafted input of {PIECE // 1024} KB, inputs/s", 1 / crafted, 1000 / MAX_CRAFTED_MS),
    )
    for name, figure, least in figures:
        sys.stdout.write(f"{name}: {figure:,.2f} (at least {least:,.2f}): {'met' if figure >= least else 'missed'}\n")
    return 0 if all(figure >= least for _, figure, least in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
