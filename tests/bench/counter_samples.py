"""The cost of decoding and comparing counter samples (`rdma-counters`, `dcgm-metrics`).

Run it with `python -m tests.bench.counter_samples`. Times are CPU times on one core, the best of several rounds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from faultbridge.decide.normalize.compare import differences
from faultbridge.decide.normalize.timestamp import assign_times
from faultbridge.decode import registry
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.faults import Observation
from tests.bench.decoders import best

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
COUNTERS = (
    "link_downed", "symbol_error", "link_error_recovery", "port_rcv_errors", "port_xmit_discards", "port_rcv_data",
)  # fmt: skip
FIELDS = ("XID_ERRORS", "ECC_DBE_VOL_TOTAL", "UNCORRECTABLE_REMAPPED_ROWS", "GPU_TEMP", "POWER_USAGE", "GPU_UTIL")


def rdma(value: int) -> bytes:
    """Return the counters of 9 ports with 20 counters each, as one node sends them."""
    path = "/sys/class/infiniband/mlx5_{}/ports/1/{}/{}: {}"
    known = [path.format(port, "counters", name, 3 + value) for port in range(9) for name in COUNTERS]
    others = [path.format(port, "hw_counters", f"other_{number}", 7) for port in range(9) for number in range(14)]
    return "\n".join(known + others).encode()


def dcgm(value: int) -> bytes:
    """Return a DCGM scrape of 8 GPUs with 6 fields each."""
    return "\n".join(
        f'DCGM_FI_DEV_{name}{{gpu="{gpu}",UUID="GPU-{gpu}",pci_bus_id="00000000:{gpu:02x}:00.0"}} {value}'
        for gpu in range(8)
        for name in FIELDS
    ).encode()


def measure(source: str, make: Callable[[int], bytes], samples: int = 50) -> dict[str, object]:
    """Measure the decoding and comparison of a node's samples, one per minute."""
    bodies = [make(number // 10) for number in range(samples)]

    def act() -> None:
        seen: list[Observation] = []
        for number, body in enumerate(bodies):
            at = NOON + timedelta(minutes=number)
            seen += assign_times(registry.decode(source, body, Hints(at)), received_at=at)
        differences(seen)

    act()
    seconds = best(act)
    size = sum(map(len, bodies))
    return {
        "source": source,
        "bytes_each": size // samples,
        "milliseconds_each": round(seconds / samples * 1000, 3),
        "samples_a_second": round(samples / seconds),
        "megabytes_a_second": round(size / seconds / 1e6, 1),
    }


if __name__ == "__main__":
    for row in (measure("rdma-counters", rdma), measure("dcgm-metrics", dcgm)):
        print(json.dumps(row))
