"""Generates the metrics reference: runs each function on a simulated installation and reads what it prints."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import pytest
import yaml

from infra.docs.markdown import code, page, table
from infra.docs.meanings import meanings
from infra.docs.template import ROOT, resources

# The test of the dashboards runs every function on sample input; this page uses the same run.
EXERCISE = "tests.architecture.test_dashboards"
INTRODUCTION = """\
Functions print metrics in CloudWatch's embedded metric format, in the namespace `Faultbridge`. Dimensions are `stack`,
`service` (the function) and, where a metric belongs to one cluster, `cluster`. Nodes and cases are never dimensions;
they are fields of the same log line and can be queried with Logs Insights."""


@dataclass
class Metric:
    """One metric as the functions print it."""

    name: str
    unit: str
    services: set[str] = field(default_factory=set)
    dimensions: set[str] = field(default_factory=set)


def generate() -> str:
    """Return the reference page of all metrics and alarms."""
    shown = _panels()
    rows = [
        (
            code(one.name),
            ", ".join(sorted(one.services)),
            one.unit,
            _per(one),
            meaning(one.name),
            shown.get(one.name, ""),
        )
        for one in sorted(_emitted().values(), key=lambda metric: metric.name)
    ]
    alarms = [_alarm(name, one["Properties"]) for name, one in sorted(resources("AWS::CloudWatch::Alarm").items())]
    return page(
        "Metrics and alarms",
        INTRODUCTION,
        "## Metrics",
        table(["metric", "function", "unit", "per", "meaning", "dashboard panel"], rows),
        "## Alarms",
        "Every alarm notifies the urgent SNS topic directly, without the pager, and the topic of the parameter "
        "`AlarmTopicArn`. [Runbook](../runbooks/alarms.md).",
        table(["alarm", "watches", "condition", "meaning"], alarms),
    )


def meaning(name: str) -> str:
    """Return the meaning of a metric: of its own name, else of the pattern that fits it."""
    known = meanings("metric")
    if name in known:
        return known[name]
    found = [text for pattern, text in known.items() if fnmatchcase(name, pattern)]
    if not found:
        raise KeyError(f"{name} has no meaning in infra/docs/meanings.yaml")
    return found[0]


def _per(metric: Metric) -> str:
    return "cluster" if "cluster" in metric.dimensions else "stack"


def _emitted() -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for line in _lines():
        for directive in line["_aws"]["CloudWatchMetrics"]:
            for one in directive["Metrics"]:
                metric = found.setdefault(one["Name"], Metric(one["Name"], one.get("Unit", "")))
                metric.services.add(line["service"])
                metric.dimensions.update(name for names in directive["Dimensions"] for name in names)
    return found


def _lines() -> Iterator[dict[str, Any]]:
    """Yield each metric line that the functions print on sample input."""
    exercise = importlib.import_module(EXERCISE)
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        exercise.happen(patch)
    return (json.loads(line) for line in printed.getvalue().splitlines() if '"_aws"' in line)


def _panels() -> dict[str, str]:
    panels = yaml.safe_load((ROOT / "infra" / "dashboards" / "panels.yaml").read_text(encoding="utf-8"))
    titles: dict[str, list[str]] = defaultdict(list)
    for panel in panels:
        for series in panel.get("series", ()):
            titles[series["name"]].append(panel["title"])
    return {name: ", ".join(dict.fromkeys(found)) for name, found in titles.items()}


SIGNS = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "<=",
}


def _alarm(name: str, alarm: dict[str, Any]) -> tuple[str, ...]:
    watched = f"{alarm.get('Namespace', '')} `{alarm.get('MetricName', 'expression')}`".strip()
    sign = SIGNS.get(alarm.get("ComparisonOperator", ""), alarm.get("ComparisonOperator", ""))
    periods = alarm.get("EvaluationPeriods", 1)
    needed = alarm.get("DatapointsToAlarm", periods)
    statistic = alarm.get("Statistic") or alarm.get("ExtendedStatistic") or ""
    lasting = f"in {needed} of {periods} periods of {alarm.get('Period', 60)} s"
    condition = f"{statistic} {sign} {alarm.get('Threshold', '')} {lasting}"
    return code(name), watched, condition.strip(), alarm.get("AlarmDescription", "")
