"""Telemetry: metrics in CloudWatch's embedded format, one printed line a call, and the logger for what failed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

NAMESPACE = "Faultbridge"

logger = Logger()


def emit(counts: Mapping[str, int], **beside: Any) -> None:  # noqa: ANN401 - whatever JSON the line carries beside
    """Print counts as metrics of this stack and service, with other facts beside them in the same line."""
    metrics = Metrics(namespace=NAMESPACE)
    metrics.add_dimension("stack", os.environ.get("FAULTBRIDGE_STACK", "faultbridge"))
    for name, count in counts.items():
        metrics.add_metric(name, MetricUnit.Count, count)
    for name, fact in beside.items():
        metrics.add_metadata(name, fact)
    metrics.flush_metrics()
