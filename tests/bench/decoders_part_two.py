"""How fast readings are decoded and compared: the hot sources `rdma-counters` and `dcgm-metrics`.

Run as `python -m tests.bench.decoders_part_two`. Times are of the CPU, the best of five runs, on one core.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from faultbridge.decoders import registry
from faultbridge.decoders.common.decoder import Hints
from faultbridge.domain.faults import Observation
from faultbridge.pipeline.normalize.compare import differences
from faultbridge.pipeline.normalize.timestamp import settle

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
RUNS = 5
COUNTERS = (
    "link_downed",
    "symbol_error",
    "link_error_recovery",
    "port_rcv_errors",
    "port_xmit_discards",
    "port_rcv_data",
)
FIELDS = ("XID_ERRORS", "ECC_DBE_VOL_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS", "GPU_TEMP", "POWER_USAGE", "GPU_UTIL")


def rdma(risen: int) -> bytes:
    """A tree of 9 ports with 20 counters each, as one node sends it."""
    path = "/sys/class/infiniband/mlx5_{}/ports/1/{}/{}: {}"
    known = [path.format(port, "counters", name, 3 + risen) for port in range(9) for name in COUNTERS]
    others = [path.format(port, "hw_counters", f"other_{number}", 7) for port in range(9) for number in range(14)]
    return "\n".join(known + others).encode()


def dcgm(risen: int) -> bytes:
    """A scrape of 8 GPUs with 6 fields each."""
    return "\n".join(
        f'DCGM_FI_DEV_{name}{{gpu="{gpu}",UUID="GPU-{gpu}",pci_bus_id="00000000:{gpu:02x}:00.0"}} {risen}'
        for gpu in range(8)
        for name in FIELDS
    ).encode()


def best(act: Callable[[], object]) -> float:
    """The best CPU time of five runs, in seconds."""
    times = []
    for _ in range(RUNS):
        start = time.process_time()
        act()
        times.append(time.process_time() - start)
    return min(times)


def measured(source: str, make: Callable[[int], bytes], looks: int = 50) -> dict[str, object]:
    """Decode and compare a number of looks of one node, each a minute after the other."""
    bodies = [make(number // 10) for number in range(looks)]

    def act() -> None:
        seen: list[Observation] = []
        for number, body in enumerate(bodies):
            at = NOON + timedelta(minutes=number)
            seen += settle(registry.decode(source, body, Hints(at)), received_at=at)
        differences(seen)

    act()
    seconds = best(act)
    size = sum(map(len, bodies))
    return {
        "source": source,
        "bytes_each": size // looks,
        "milliseconds_each": round(seconds / looks * 1000, 3),
        "looks_a_second": round(looks / seconds),
        "megabytes_a_second": round(size / seconds / 1e6, 1),
    }


if __name__ == "__main__":
    for row in (measured("rdma-counters", rdma), measured("dcgm-metrics", dcgm)):
        print(json.dumps(row))
