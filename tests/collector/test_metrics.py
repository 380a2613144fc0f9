"""The collector serves its own counters, which the parser of Prometheus reads."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from faultbridge.model.errors import Misconfigured
from faultbridge.node.collector.metrics import metrics_text, serve_metrics
from tests.collector.cluster import Collected, collected
from tests.waiting import eventually


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Collected]:
    with collected(tmp_path) as made:
        yield made


def values(text: str) -> dict[str, float]:
    return {f"{one.name}{''.join(one.labels.values())}": one.value for family in parse(text) for one in family.samples}


def test_the_counters_follow_what_the_collector_did(world: Collected) -> None:
    before = values(metrics_text(world.collector()))
    assert before["faultbridge_collector_records_sent_total"] == 0
    assert before["faultbridge_collector_listednode"] == 0
    with world.running() as collector:
        world.until(1)
        eventually(lambda: collector.sender.sent >= 1)
        eventually(lambda: values(metrics_text(collector))["faultbridge_collector_records_waiting"] == 0)
        after = values(metrics_text(collector))
    assert after["faultbridge_collector_records_sent_total"] >= 1
    assert after["faultbridge_collector_records_waiting"] == 0
    assert after["faultbridge_collector_listednode"] == 1
    assert after["faultbridge_collector_last_send_failed"] == 0


def test_only_the_path_of_metrics_is_served(world: Collected) -> None:
    server = serve_metrics(world.collector(), 0, "127.0.0.1")
    address = f"http://127.0.0.1:{server.server_port}"
    with urllib.request.urlopen(f"{address}/metrics") as answer:  # noqa: S310 - a local server
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert "faultbridge_collector_records_dropped_total" in values(answer.read().decode())
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{address}/")  # noqa: S310 - as above
    with pytest.raises(Misconfigured, match="choose another --metrics-port"):
        serve_metrics(world.collector(), server.server_port, "127.0.0.1")
    server.shutdown()
    server.server_close()
