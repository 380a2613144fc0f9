"""Telemetry: metrics in CloudWatch's embedded format, one printed line a call, and the logger for what failed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

NAMESPACE = "Faultbridge"
# A line of the embedded metric format holds a hundred values of a metric; the library prints by itself at that number.
MAX_VALUES = 99

logger = Logger()


def emit(counts: Mapping[str, int], **beside: Any) -> None:  # noqa: ANN401 - whatever JSON the line carries beside
    """Print counts as metrics of this stack and service, with other facts beside them in the same line."""
    _print(counts, {}, {}, beside)


def emit_of(
    cluster: str, counts: Mapping[str, int], durations: Mapping[str, Sequence[int]] | None = None, **beside: str
) -> None:
    """Print metrics of one cluster; `durations` are milliseconds, of which a line holds at most 99 by one name."""
    _print(counts, durations or {}, {"cluster": cluster}, beside)


def _print(
    counts: Mapping[str, int],
    durations: Mapping[str, Sequence[int]],
    dimensions: Mapping[str, str],
    beside: Mapping[str, Any],
) -> None:
    metrics = Metrics(namespace=NAMESPACE)
    metrics.add_dimension("stack", os.environ.get("FAULTBRIDGE_STACK", "faultbridge"))
    for name, value in dimensions.items():
        metrics.add_dimension(name, value)
    for name, count in counts.items():
        metrics.add_metric(name, MetricUnit.Count, count)
    for name, lengths in durations.items():
        for length in lengths[:MAX_VALUES]:
            metrics.add_metric(name, MetricUnit.Milliseconds, length)
    for name, fact in beside.items():
        metrics.add_metadata(name, fact)
    metrics.flush_metrics()
