"""The exporter serves the documents of the API as metrics that Prometheus' own parsers read."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse

from faultbridge.cli.commands.records.servers import ApiClient
from faultbridge.cli.export.metrics import METRICS, STATUS_NUMBERS, FleetCollector
from faultbridge.model.enums import NodeStatus
from faultbridge.model.times import from_text
from tests.api.gateway import Gateway
from tests.architecture.project import ROOT
from tests.exports.builders import break_a_gpu

DASHBOARD = ROOT / "infra" / "dashboards" / "grafana-prometheus.json"


class Scraper:
    """Scrapes a collector by a clock that the test sets."""

    def __init__(self, api: ApiClient, interval: float = 30, clusters: tuple[str, ...] = ()) -> None:
        self.now = 0.0
        self.registry = CollectorRegistry()
        self.registry.register(FleetCollector(api, clusters, interval, lambda: self.now))

    def values(self) -> dict[tuple[str, ...], float]:
        """Return the value of each sample by its name and the values of its labels, sorted by label."""
        return {
            (one.name, *(value for _, value in sorted(one.labels.items()))): one.value
            for family in parse(generate_latest(self.registry).decode())
            for one in family.samples
        }


def test_the_metrics_state_what_the_api_states(gateway: Gateway, api: ApiClient) -> None:
    break_a_gpu(gateway.world)
    values = Scraper(api).values()
    node = gateway.get("/clusters/train-a/nodes/n-1").json
    assert values["faultbridge_up",] == 1
    assert values["faultbridge_nodes", "train-a", "healthy"] == 1
    assert values["faultbridge_node_state", "train-a", "gpu-workers", "n-1"] == STATUS_NUMBERS[node["status"]]
    assert values["faultbridge_conditions", "train-a", "gpu.lost", "fatal"] == 1
    assert values["faultbridge_gpu_condition_observations", "train-a", "xid.79", "gpu.lost", "0000:c1:00", "n-1"] == 1
    assert values["faultbridge_repairs_paused", "train-a"] == 0
    last = gateway.get("/clusters/train-a/nodes/n-1").json["last_report"]
    found = values["faultbridge_node_last_report_timestamp_seconds", "train-a", "n-1", last["source"]]
    assert found == from_text(last["at"]).timestamp()
    assert not any(name[0].startswith("faultbridge_node_last_report") and "n-2" in name for name in values)
    cases = gateway.get("/clusters/train-a/cases").json["items"]
    assert sum(value for name, value in values.items() if name[0] == "faultbridge_cases") == len(cases) == 1
    permitted = gateway.get("/clusters/train-a").json["repairs_permitted"]
    assert values["faultbridge_repairs_left", "train-a"] == permitted - values["faultbridge_repairs_running", "train-a"]


def test_the_parser_of_openmetrics_reads_the_metrics(gateway: Gateway, api: ApiClient) -> None:
    break_a_gpu(gateway.world)
    families = {one.name: one for one in parse_openmetrics(generate_openmetrics(Scraper(api).registry).decode())}
    assert set(families) == {"faultbridge_up", *(one.name for one in METRICS)}
    for family in families.values():
        assert family.type == "gauge"
        assert family.documentation.endswith(".")


def test_the_names_follow_the_rules_of_prometheus() -> None:
    for metric in METRICS:
        assert re.fullmatch(r"faultbridge(_[a-z]+)+", metric.name)
        assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket", "_info")), "a gauge"


def test_the_api_is_read_at_most_once_in_an_interval(gateway: Gateway, api: ApiClient) -> None:
    scraper = Scraper(api)
    assert scraper.values()["faultbridge_nodes", "train-a", "healthy"] == 2
    gateway.world.register_node("n-3")
    scraper.now = 29
    assert scraper.values()["faultbridge_nodes", "train-a", "healthy"] == 2
    scraper.now = 30
    assert scraper.values()["faultbridge_nodes", "train-a", "healthy"] == 3


def test_a_failed_read_leaves_only_the_metric_that_says_so() -> None:
    assert Scraper(ApiClient("http://127.0.0.1:1", lambda _url: {})).values() == {("faultbridge_up",): 0}


def test_one_cluster_is_read_if_it_is_named(api: ApiClient) -> None:
    assert Scraper(api, clusters=("other",)).values() == {("faultbridge_up",): 0}
    assert Scraper(api, clusters=("train-a",)).values()["faultbridge_nodes", "train-a", "healthy"] == 2


def _expressions(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel.get("targets", ())]


def test_the_dashboard_uses_only_existing_metrics_and_labels() -> None:
    known = {one.name: {"cluster", *one.labels} for one in METRICS} | {"faultbridge_up": set()}
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    used = [name for panel in panels for one in _expressions(panel) for name in re.findall(r"faultbridge_\w+", one)]
    assert set(used) <= set(known)
    assert set(known) <= set(used), "each metric has a panel"
    for panel in panels:
        for text in _expressions(panel):
            (name,) = set(re.findall(r"faultbridge_\w+", text))
            assert set(re.findall(r"(?:by \(|, )(\w+)(?=[,)])", text)) <= known[name]


@pytest.mark.parametrize("status", NodeStatus)
def test_the_state_timeline_names_each_status(status: NodeStatus) -> None:
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    (panel,) = [one for one in panels if one["type"] == "state-timeline"]
    (mapping,) = panel["fieldConfig"]["defaults"]["mappings"]
    assert mapping["options"][str(STATUS_NUMBERS[status.value])]["text"] == status.value
