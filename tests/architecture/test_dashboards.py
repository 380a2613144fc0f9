"""The dashboards show metrics that the code emits, by the dimensions under which it emits them."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import pytest

from faultbridge.adapters.aws import telemetry
from faultbridge.adapters.aws.dynamodb import to_typed_item
from faultbridge.adapters.aws.telemetry import NAMESPACE
from faultbridge.model.cases import Phase
from faultbridge.model.enums import EntryType, WaitingFor
from faultbridge.model.times import to_text
from faultbridge.serve.entrypoints.ingest import ingest
from faultbridge.serve.entrypoints.inventory import inventory
from faultbridge.serve.entrypoints.pager import pager
from faultbridge.serve.entrypoints.publish import publish
from faultbridge.serve.entrypoints.sweep import sweep
from infra.docs.template import resources
from tests.architecture.builders import entry
from tests.architecture.project import ROOT
from tests.bench.dynamodb_meter import PRICES
from tests.pages import CLOSED, ESCALATED, OPENED, case_event, event
from tests.sim.fakes import START
from tests.world import World

Where = frozenset[str]
PHASES = dict.fromkeys(("detected", "open", "queued", "in_progress", *Phase), 1000)
CANARY = event(EntryType.NOTE, kind="canary", text="", facts={"sent_at": to_text(START)})
OURS = re.compile(r"SEARCH\('\{Faultbridge,([a-z,]+)\} MetricName=\"(\w+)\" service=\"(\w+)\" ")


def measured_events() -> Iterator[dict[str, Any]]:
    """Yield one event of each kind that is measured, and one for each reason to wait."""
    yield from (event(kind, code="xid.79") for kind in (EntryType.FAULT_DETECTED, EntryType.FAULT_CLEARED))
    yield from (OPENED, ESCALATED, case_event("in_progress", 8, **{"from": "queued"}))
    yield {**CLOSED, "data": {**CLOSED["data"], "phases": PHASES, "gpu_time_lost": 3_600_000}}
    for reason in (one for one in WaitingFor if one is not WaitingFor.ADMISSION):  # no refusal has this reason
        yield event(EntryType.NOTE, kind="refused", text="not now", facts={"waiting_for": reason.value})


def happen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every function that the dashboards or alarms use, on sample input."""
    world = World()
    record = world.message()
    sent = {"SentTimestamp": str(int(world.now.timestamp() * 1000))}
    images = [{"dynamodb": {"NewImage": to_typed_item(entry(body))}} for body in measured_events()]
    for service, run in {
        "ingest": lambda: ingest(
            {"Records": [{"messageId": record.id, "body": record.text, "attributes": sent}]}, world.app
        ),
        "sweep": lambda: (sweep({}, world.app), sweep({"detail-type": EntryType.NOTE, "detail": CANARY}, world.app)),
        "publish": lambda: publish({"Records": images}, world.app),
        "pager": lambda: (
            pager({"Records": [{"body": json.dumps({"detail": ESCALATED})}]}, world.app),
            pager({"detail-type": "Scheduled Event"}, world.app),
        ),
        "inventory": lambda: inventory({}, world.app),
    }.items():
        monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", service)
        run()


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, str], set[Where]]:
    """Return the dimensions of every metric by service and name, as the functions print them."""
    monkeypatch.setattr(telemetry, "is_charged", lambda _values: True)  # a count of 0 has its metric too
    happen(monkeypatch)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"_aws"' in line]
    found: dict[tuple[str, str], set[Where]] = defaultdict(set)
    for line in lines:
        for directive in line["_aws"]["CloudWatchMetrics"]:
            assert directive["Namespace"] == NAMESPACE
            for metric in directive["Metrics"]:
                where = {frozenset(dimensions) for dimensions in directive["Dimensions"]}
                found[line["service"], metric["Name"]] |= where
    return found


@cache
def built() -> ModuleType:
    """Return the script that writes the dashboards."""
    spec = importlib.util.spec_from_file_location("build_dashboards", ROOT / "infra" / "build_dashboards.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their own module up
    spec.loader.exec_module(module)
    return module


def in_cloudwatch() -> set[tuple[str, str, Where]]:
    """Return service, name and dimensions of every metric of ours in the CloudWatch dashboard."""
    body = resources("AWS::CloudWatch::Dashboard")["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"]
    expressions = [
        metric[0]["expression"]
        for widget in json.loads(body)["widgets"]
        for metric in widget["properties"].get("metrics", [])
        if isinstance(metric[0], dict)
    ]
    searches = [OURS.match(one) for one in expressions if one.startswith("SEARCH")]
    assert all(searches)
    return {(one[3], one[2], frozenset(one[1].split(","))) for one in searches if one}


def in_grafana() -> set[tuple[str, str, Where]]:
    """Return service, name and dimensions of every metric of ours in the Grafana dashboard."""
    board = json.loads((ROOT / "infra" / "dashboards" / "grafana.json").read_text(encoding="utf-8"))
    targets = [target for panel in board["panels"] for target in panel["targets"]]
    ours = [target for target in targets if target.get("namespace") == NAMESPACE]
    return {(one["dimensions"]["service"], one["metricName"], frozenset(one["dimensions"])) for one in ours}


def test_what_a_dashboard_shows_is_emitted_by_that_service_under_those_dimensions(
    emitted: dict[tuple[str, str], set[Where]],
) -> None:
    for shown in (in_cloudwatch(), in_grafana()):
        assert len(shown) > 25
        assert {(s, name, where) for s, name, where in shown if where not in emitted.get((s, name), set())} == set()


def test_no_metric_has_a_node_or_a_case_for_a_dimension(emitted: dict[tuple[str, str], set[Where]]) -> None:
    dimensions = {name for places in emitted.values() for where in places for name in where}
    assert dimensions <= {"stack", "service", "cluster"}


def test_an_alarm_on_a_metric_of_ours_watches_one_that_is_emitted(
    emitted: dict[tuple[str, str], set[Where]],
) -> None:
    alarms = [one["Properties"] for one in resources("AWS::CloudWatch::Alarm").values()]
    for alarm in (one for one in alarms if one.get("Namespace") == NAMESPACE):
        dimensions = {one["Name"]: one["Value"] for one in alarm["Dimensions"]}
        assert frozenset(dimensions) in emitted[dimensions["service"], alarm["MetricName"]]


def test_faults_by_code_are_asked_of_fields_that_the_lines_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    happen(monkeypatch)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"code"' in line]
    assert {
        (line["code"], line["cluster"], tuple(line["FaultsDetected"])) for line in lines if "FaultsDetected" in line
    }
    for text in (ROOT / "infra" / "template.yaml", ROOT / "infra" / "dashboards" / "grafana.json"):
        assert "ispresent(code) and ispresent(FaultsDetected)" in text.read_text(encoding="utf-8")


def test_both_dashboards_are_those_of_the_table_of_panels() -> None:
    module, text = built(), (ROOT / "infra" / "template.yaml").read_text(encoding="utf-8")
    assert module.written(text) == text, "run python infra/build_dashboards.py"
    assert json.loads(module.GRAFANA.read_text(encoding="utf-8")) == module.grafana()


@pytest.mark.parametrize("name", ["write_request_unit", "read_request_unit", "lambda_gb_second"])
def test_the_prices_are_those_of_the_list(name: str) -> None:
    prices = PRICES["requests"]
    factors = {one.factor for panel in built().PANELS for one in panel.series}
    wanted = prices[name] / 2 / 1000 if name == "lambda_gb_second" else prices[name]
    assert any(abs(factor - wanted) < wanted / 1e6 for factor in factors)


def test_the_cost_panel_prices_each_function_at_its_memory_and_shows_queue_and_logs() -> None:
    (panel,) = [one for one in built().PANELS if one.title.startswith("Approximate cost")]
    functions = resources("AWS::Serverless::Function")
    priced = {one.dimensions["FunctionName"]: one.factor for one in panel.series if one.name == "Duration"}
    for name, factor in priced.items():
        function = functions[f"{name.rpartition('-')[2].capitalize()}Function"]
        megabytes = function["Properties"].get("MemorySize", 512)
        assert factor == pytest.approx(megabytes / 1024 / 1000 * PRICES["lambda_gb_second"]["arm64"], rel=1e-3)
    assert {"NumberOfMessagesSent", "NumberOfEmptyReceives", "IncomingBytes"} <= {one.name for one in panel.series}
