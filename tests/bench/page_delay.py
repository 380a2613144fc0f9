"""The processing time from a raw record to its page, on fakes and without any waiting.

Run `python -m tests.bench.page_delay`. `tests/e2e/test_page_latency.py` measures it with the emulator.
"""

from __future__ import annotations

import json
import statistics
import time

from faultbridge.model.storage import keys
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.pager import wire_pages
from faultbridge.serve.entrypoints.publish import wire_publish
from tests.world import World

PAGES = 200
UNKNOWN = "NVRM: Xid (PCI:0000:c1:00): 998, pid=1234, name=python, something that no catalog has"


def measure() -> list[dict[str, float]]:
    """Return the processor time of ingest, publish and pager for each page, in milliseconds."""
    # The limit is raised so that every page is sent.
    limit = {"FAULTBRIDGE_MAX_PAGES_PER_HOUR": str(PAGES)}
    world = World(nodes=tuple(f"node-{number:03}" for number in range(PAGES)), settings=limit)
    stream, figures = world.ports.table.stream, []
    for number in range(PAGES):
        record, before = world.message(UNKNOWN, node=f"node-{number:03}"), len(stream)
        start = time.process_time()
        wire_ingest(world.app).ingest([record])
        ingested = time.process_time()
        entries = [one.new for one in stream[before:] if one.new and one.key.sk.startswith(keys.ENTRY)]
        put = len(world.ports.bus.accepted)
        wire_publish(world.app).publish(entries)
        published = time.process_time()
        for event in world.ports.bus.accepted[put:]:
            if event.detail_type == "Case Status Change":
                wire_pages(world.app).deliver(json.loads(event.detail))
        paged = time.process_time()
        figures.append({"ingest": ingested - start, "publish": published - ingested, "pager": paged - published})
    assert len({page.key for page in world.ports.pager.sent}) == PAGES
    return [{name: 1000 * seconds for name, seconds in one.items()} for one in figures]


def main() -> None:
    """Print p50 and p99 of each part and of the total."""
    figures = [one | {"all": sum(one.values())} for one in measure()]
    for name in figures[0]:
        values = statistics.quantiles([one[name] for one in figures], n=100, method="inclusive")
        print(f"{name:<8} p50 {values[49]:6.2f} ms   p99 {values[98]:6.2f} ms")


if __name__ == "__main__":
    main()
