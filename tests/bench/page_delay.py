"""Our own share of a page's delay: from the raw record to the page, over fakes, so that nothing is waited for.

Run `python -m tests.bench.page_delay`. What the emulator adds is timed by `tests/e2e/test_page_latency.py`.
"""

from __future__ import annotations

import json
import statistics
import time

from faultbridge.storage import keys
from tests.world import World

PAGES = 200
UNKNOWN = "NVRM: Xid (PCI:0000:c1:00): 998, pid=1234, name=python, something that no catalog has"


def timed() -> list[dict[str, float]]:
    """Milliseconds of processor time of ingest, publish and pager for each page."""
    # No hourly limit here: every page is sent.
    unlimited = {"FAULTBRIDGE_MAX_PAGES_PER_HOUR": str(PAGES)}
    world = World(nodes=tuple(f"node-{number:03}" for number in range(PAGES)), settings=unlimited)
    stream, figures = world.ports.table.stream, []
    for number in range(PAGES):
        record, heard = world.message(UNKNOWN, node=f"node-{number:03}"), len(stream)
        began = time.process_time()
        world.app.ingestion.ingest([record])
        ingested = time.process_time()
        entries = [one.new for one in stream[heard:] if one.new and one.key.sk.startswith(keys.ENTRY)]
        put = len(world.ports.bus.taken)
        world.app.ledger.publish(entries)
        published = time.process_time()
        for event in world.ports.bus.taken[put:]:
            if event.detail_type == "Case Status Change":
                world.app.pager.page(json.loads(event.detail))
        paged = time.process_time()
        figures.append({"ingest": ingested - began, "publish": published - ingested, "pager": paged - published})
    assert len({page.key for page in world.ports.pager.sent}) == PAGES
    return [{name: 1000 * seconds for name, seconds in one.items()} for one in figures]


def main() -> None:
    """Print p50 and p99 of each part and of all."""
    figures = [one | {"all": sum(one.values())} for one in timed()]
    for name in figures[0]:
        values = statistics.quantiles([one[name] for one in figures], n=100, method="inclusive")
        print(f"{name:<8} p50 {values[49]:6.2f} ms   p99 {values[98]:6.2f} ms")


if __name__ == "__main__":
    main()
