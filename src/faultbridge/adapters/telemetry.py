"""Configure the logger, and print metrics in CloudWatch's embedded metric format, one line per call."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.utils import copy_config_to_registered_loggers
from aws_lambda_powertools.metrics import MetricUnit

from faultbridge.log import LOGGER

NAMESPACE = "Faultbridge"
# A line of the embedded metric format holds 100 values of a metric. Powertools prints a line by itself at that number.
MAX_VALUES = 99

logger = Logger()
# `faultbridge.log` writes causes to the standard library's logger of this name; they get the same JSON form.
LOGGER.setLevel("INFO")
copy_config_to_registered_loggers(logger, include={LOGGER.name})


def emit(counts: Mapping[str, int], **metadata: Any) -> None:  # noqa: ANN401 - any JSON value is allowed as metadata
    """Print counts as metrics of this stack and service.

    `metadata` is added to the same log line.
    """
    _print(counts, {}, {}, metadata)


def emit_for_cluster(
    cluster: str, counts: Mapping[str, int], durations: Mapping[str, Sequence[int]] | None = None, **metadata: str
) -> None:
    """Print the metrics of one cluster.

    `durations` are in milliseconds; only the first 99 values of each name are printed.
    """
    _print(counts, durations or {}, {"cluster": cluster}, metadata)


def emit_for_reason(reason: str, counts: Mapping[str, int]) -> None:
    """Print counts as metrics with the dimension `reason`.

    `emit` prints the same metrics without this dimension, as totals.
    """
    _print(counts, {}, {"reason": reason}, {})


def _print(
    counts: Mapping[str, int],
    durations: Mapping[str, Sequence[int]],
    dimensions: Mapping[str, str],
    metadata: Mapping[str, Any],
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
    for name, value in metadata.items():
        metrics.add_metadata(name, value)
    metrics.flush_metrics()
