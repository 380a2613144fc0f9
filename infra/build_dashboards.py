"""Generate the CloudWatch and Grafana dashboards from `dashboards/panels.yaml`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

INFRA = Path(__file__).resolve().parent
TEMPLATE, GRAFANA = INFRA / "template.yaml", INFRA / "dashboards" / "grafana.json"
SOURCE = INFRA / "dashboards" / "panels.yaml"
BEGIN, END = "  # dashboard: written by infra/build_dashboards.py", "  # dashboard: end"
OURS = "Faultbridge"
STACK = "${AWS::StackName}"


@dataclass(frozen=True)
class Series:
    """One metric: of a Faultbridge service, with a line per cluster if `clusters` is True, or of AWS."""

    name: str
    stat: str = "Sum"
    service: str = ""
    clusters: bool = False
    namespace: str = OURS
    dimensions: Mapping[str, str] = field(default_factory=dict)
    factor: float = 1.0
    label: str = ""


@dataclass(frozen=True)
class Panel:
    """One widget: metric series, or a log query."""

    title: str
    series: tuple[Series, ...] = ()
    query: str = ""
    unit: str = "short"
    period: int = 300
    stacked: bool = False


def _panels() -> tuple[Panel, ...]:
    listed = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    return tuple(
        Panel(**{**one, "series": tuple(Series(**series) for series in one.get("series", ()))}) for one in listed
    )


PANELS = _panels()
IN_GRAFANA = {"${RawRecordsQueue.QueueName}": "$raw_queue", "${Table}": "$table"}


# ---------------------------------------------------------------- CloudWatch


def cloudwatch() -> dict[str, Any]:
    """Return the body of the CloudWatch dashboard; it contains references of the template."""
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
    metric_id = f"m{index}"
    if one.namespace == OURS:
        dimensions = "cluster,service,stack" if one.clusters else "service,stack"
        where = f'MetricName="{one.name}" service="{one.service}" stack="{STACK}"'
        search = f"SEARCH('{{{OURS},{dimensions}}} {where}', '{one.stat}', {period})"
        expression = search if one.factor == 1 else f"{search} * {one.factor:.10f}"
        # Without a label, CloudWatch names each line of a search by its distinguishing dimension.
        yield [{"expression": expression, "id": metric_id, **({} if one.clusters else {"label": label})}]
        return
    flat = [part for dimension in one.dimensions.items() for part in dimension]
    hidden = {"stat": one.stat, "id": metric_id, "label": label, **({"visible": False} if one.factor != 1 else {})}
    yield [one.namespace, one.name, *flat, hidden]
    if one.factor != 1:
        yield [{"expression": f"{metric_id} * {one.factor:.15f}", "id": f"c{index}", "label": label}]


def resource() -> str:
    """Return the generated lines of the template, with their two markers."""
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
    """Return the Grafana dashboard; its variables select data source, region and stack."""
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
    """Return the template with the generated dashboard between its markers."""
    between = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}\n", re.DOTALL)
    if not between.search(template):
        raise SystemExit(f"no dashboard markers in the template; add the lines {BEGIN!r} and {END!r}")
    return between.sub(lambda _: resource(), template)


if __name__ == "__main__":
    TEMPLATE.write_text(written(TEMPLATE.read_text(encoding="utf-8")), encoding="utf-8")
    GRAFANA.parent.mkdir(exist_ok=True)
    GRAFANA.write_text(json.dumps(grafana(), indent=1) + "\n", encoding="utf-8")
    print(TEMPLATE, GRAFANA)
