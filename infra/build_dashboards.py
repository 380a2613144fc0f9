"""Writes the dashboards from one table of panels: CloudWatch's into the template, Grafana's beside it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INFRA = Path(__file__).resolve().parent
TEMPLATE, GRAFANA = INFRA / "template.yaml", INFRA / "dashboards" / "grafana.json"
BEGIN, END = "  # dashboard: written by infra/build_dashboards.py", "  # dashboard: end"
OURS = "Faultbridge"
STACK = "${AWS::StackName}"


@dataclass(frozen=True)
class Series:
    """One metric: of ours by its service, for each cluster if `clusters`; or of AWS with its dimensions."""

    name: str
    stat: str = "Sum"
    service: str = "publish"
    clusters: bool = True
    namespace: str = OURS
    dimensions: tuple[tuple[str, str], ...] = ()
    factor: float = 1.0
    label: str = ""


@dataclass(frozen=True)
class Panel:
    """One widget: some series, or a query of logs."""

    title: str
    series: tuple[Series, ...] = ()
    query: str = ""
    unit: str = "short"
    period: int = 300
    stacked: bool = False


def gauge(*names: str) -> tuple[Series, ...]:
    """Name what a sweep says of each cluster, each minute."""
    return tuple(Series(name, "Maximum", "sweep") for name in names)


def counts(*names: str, service: str = "publish", clusters: bool = True) -> tuple[Series, ...]:
    """Name what adds up."""
    return tuple(Series(name, "Sum", service, clusters) for name in names)


def spread(*names: str) -> tuple[Series, ...]:
    """Durations in milliseconds: half of them, and all but one of a hundred."""
    return tuple(Series(name, stat) for name in names for stat in ("p50", "p99"))


def table_cost(name: str, price: float) -> Series:
    """Price the table's units, in USD of us-east-1's list price."""
    place = (("TableName", "${Table}"),)
    return Series(name, "Sum", namespace="AWS/DynamoDB", clusters=False, dimensions=place, factor=price, label=name)


def function_cost(name: str) -> Series:
    """Price a function's time: milliseconds at 512 MB."""
    place = (("FunctionName", f"{STACK}-{name}"),)
    price = 0.5 * 0.0000166667 / 1000
    return Series("Duration", "Sum", "", False, "AWS/Lambda", place, price, f"{name} (Lambda)")


IN_GRAFANA = {"${RawRecordsQueue.QueueName}": "$raw_queue", "${Table}": "$table"}
RAW_QUEUE = (("QueueName", "${RawRecordsQueue.QueueName}"),)
PANELS: tuple[Panel, ...] = (
    Panel(
        "Fleet health: nodes by state",
        gauge("NodesHealthy", "NodesDegraded", "NodesQuarantined", "NodesInRepair", "NodesFailed"),
        period=60,
        stacked=True,
    ),
    Panel(
        "Faults by code",
        query="filter ispresent(code) and ispresent(FaultsDetected)"
        " | stats sum(FaultsDetected) as faults by cluster, code | sort faults desc | limit 20",
    ),
    Panel("Cases", counts("CasesOpened", "RepairsBegun", "CasesEscalated", "CasesEnded")),
    Panel("Repair, from opening to end", spread("CaseTotal"), unit="ms", period=3600),
    Panel(
        "Phases of a repair",
        spread("PhaseOpen", "PhaseQueued", "PhaseDraining", "PhaseAwaiting", "PhaseVerifying"),
        unit="ms",
        period=3600,
    ),
    Panel(
        "Age of the oldest raw record",
        (Series("ApproximateAgeOfOldestMessage", "Maximum", "", False, "AWS/SQS", RAW_QUEUE, label="raw records"),),
        unit="s",
        period=60,
    ),
    Panel("Publish lag, from entry to bus", spread("PublishLag"), unit="ms", period=60),
    Panel(
        "Repairs refused, by reason",
        counts(
            "RefusedWait",
            "RefusedApproval",
            "RefusedWindow",
            "RefusedBudget",
            "RefusedBreaker",
            "RefusedCapacity",
            "RefusedIncident",
            "RefusedPause",
        ),
    ),
    Panel(
        "Records refused",
        counts("RecordsRejected", "RecordsUntrusted", "RecordsGivenBack", service="ingest", clusters=False),
    ),
    Panel("GPU-hours lost", (Series("GpuSecondsLost", factor=1 / 3600),), period=3600),
    Panel(
        "Pages",
        (
            *counts("PagesSent", "PagesWithheld", "PagesReminders", "PagesSummaries", service="pager", clusters=False),
            Series("PagesLive", "Maximum", "pager", False),
        ),
    ),
    Panel(
        "Cost an hour in USD, about (list prices of us-east-1)",
        (
            table_cost("ConsumedWriteCapacityUnits", 0.000000625),
            table_cost("ConsumedReadCapacityUnits", 0.000000125),
            *(function_cost(name) for name in ("ingest", "publish", "react", "sweep", "pager", "replacement")),
        ),
        unit="currencyUSD",
        period=3600,
        stacked=True,
    ),
)


# ---------------------------------------------------------------- CloudWatch


def cloudwatch() -> dict[str, Any]:
    """Return the body of AWS::CloudWatch::Dashboard, with the template's own names in it."""
    widgets = [_widget(panel, number) for number, panel in enumerate(PANELS)]
    return {"start": "-PT24H", "widgets": widgets}


def _widget(panel: Panel, number: int) -> dict[str, Any]:
    place = {"x": 12 * (number % 2), "y": 6 * (number // 2), "width": 12, "height": 6}
    if panel.query:
        query = f"SOURCE '/aws/lambda/{STACK}-publish' | {panel.query}"
        shown = {"title": panel.title, "region": "${AWS::Region}", "view": "table", "query": query}
        return {"type": "log", **place, "properties": shown}
    metrics = [metric for index, one in enumerate(panel.series) for metric in _metrics(one, panel.period, index)]
    properties = {
        "title": panel.title,
        "region": "${AWS::Region}",
        "view": "timeSeries",
        "stacked": panel.stacked,
        "period": panel.period,
        "metrics": metrics,
    }
    return {"type": "metric", **place, "properties": properties}


def _metrics(one: Series, period: int, index: int) -> Iterator[list[Any]]:
    label = one.label or f"{one.name} {one.stat}" * (one.stat[0] == "p") or one.name
    found = f"m{index}"
    if one.namespace == OURS:
        dimensions = "cluster,service,stack" if one.clusters else "service,stack"
        where = f'MetricName="{one.name}" service="{one.service}" stack="{STACK}"'
        search = f"SEARCH('{{{OURS},{dimensions}}} {where}', '{one.stat}', {period})"
        expression = search if one.factor == 1 else f"{search} * {one.factor:.10f}"
        # Without a label CloudWatch names each line of a search by what tells it from the others.
        yield [{"expression": expression, "id": found, **({} if one.clusters else {"label": label})}]
        return
    flat = [part for dimension in one.dimensions for part in dimension]
    hidden = {"stat": one.stat, "id": found, "label": label, **({"visible": False} if one.factor != 1 else {})}
    yield [one.namespace, one.name, *flat, hidden]
    if one.factor != 1:
        yield [{"expression": f"{found} * {one.factor:.15f}", "id": f"c{index}", "label": label}]


def resource() -> str:
    """Return the lines of the template between its two marks."""
    body = json.dumps(cloudwatch(), indent=1)
    indented = "\n".join(f"          {line}" for line in body.splitlines())
    return (
        f"{BEGIN}\n"
        "  Dashboard:\n"
        "    Type: AWS::CloudWatch::Dashboard\n"
        "    Properties:\n"
        '      DashboardName: !Sub "${AWS::StackName}"\n'
        "      DashboardBody:\n"
        "        Fn::Sub: |\n"
        f"{indented}\n"
        f"{END}\n"
    )


# ---------------------------------------------------------------- Grafana


def grafana() -> dict[str, Any]:
    """Return a dashboard that Grafana imports; its variables choose data source, region and stack."""
    return {
        "title": "Faultbridge",
        "uid": "faultbridge",
        "schemaVersion": 39,
        "editable": True,
        "refresh": "1m",
        "time": {"from": "now-24h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": [_panel(panel, number) for number, panel in enumerate(PANELS)],
    }


def _variables() -> list[dict[str, Any]]:
    return [
        {"name": "datasource", "type": "datasource", "query": "cloudwatch", "label": "CloudWatch"},
        {"name": "region", "type": "textbox", "query": "us-east-1", "label": "Region"},
        {"name": "stack", "type": "textbox", "query": "faultbridge", "label": "Stack"},
        {"name": "table", "type": "textbox", "query": "", "label": "Table (output TableName)"},
        {"name": "raw_queue", "type": "textbox", "query": "", "label": "Queue (end of RawRecordsQueueUrl)"},
    ]


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    source = {"type": "cloudwatch", "uid": "${datasource}"}
    place = {"h": 8, "w": 12, "x": 12 * (number % 2), "y": 8 * (number // 2)}
    common = {"id": number + 1, "title": panel.title, "datasource": source, "gridPos": place}
    if panel.query:
        target = {
            "refId": "A",
            "datasource": source,
            "queryMode": "Logs",
            "region": "$region",
            "logGroups": [{"name": "/aws/lambda/$stack-publish"}],
            "expression": panel.query,
        }
        return {**common, "type": "table", "targets": [target]}
    stacking = {"custom": {"stacking": {"mode": "normal" if panel.stacked else "none"}}}
    unit = {"defaults": {"unit": panel.unit, **stacking}, "overrides": []}
    targets = [target for index, one in enumerate(panel.series) for target in _targets(one, panel, index)]
    return {**common, "type": "timeseries", "fieldConfig": unit, "targets": targets}


def _targets(one: Series, panel: Panel, index: int) -> Iterator[dict[str, Any]]:
    source = {"type": "cloudwatch", "uid": "${datasource}"}
    dimensions = dict(one.dimensions) or {"stack": "$stack", "service": one.service}
    if one.namespace == OURS and one.clusters:
        dimensions["cluster"] = "*"
    named = {name: value.replace(STACK, "$stack") for name, value in dimensions.items()}
    named = {name: IN_GRAFANA.get(value, value) for name, value in named.items()}
    common = {"datasource": source, "queryMode": "Metrics", "region": "$region", "period": str(panel.period)}
    label = one.label or f"{one.name} {one.stat}" * (one.stat[0] == "p") or one.name
    yield {
        "refId": f"M{index}",
        "id": f"m{index}",
        "hide": one.factor != 1,
        "namespace": one.namespace,
        "metricName": one.name,
        "dimensions": named,
        "statistic": one.stat,
        "metricEditorMode": 0,
        "metricQueryType": 0,
        "matchExact": True,
        "label": f"{label} ${{PROP('Dim.cluster')}}" if "cluster" in named else label,
        **common,
    }
    if one.factor != 1:
        expression = f"m{index} * {one.factor:.15f}"
        math = {"refId": f"C{index}", "id": f"c{index}", "metricEditorMode": 1, "metricQueryType": 0}
        yield {**math, "expression": expression, "label": label, **common}


def written(template: str) -> str:
    """Put the dashboard of now between the marks of a template."""
    between = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}\n", re.DOTALL)
    if not between.search(template):
        raise SystemExit("the template has no marks for the dashboard")
    return between.sub(lambda _: resource(), template)


if __name__ == "__main__":
    TEMPLATE.write_text(written(TEMPLATE.read_text(encoding="utf-8")), encoding="utf-8")
    GRAFANA.parent.mkdir(exist_ok=True)
    GRAFANA.write_text(json.dumps(grafana(), indent=1) + "\n", encoding="utf-8")
    print(TEMPLATE, GRAFANA)
