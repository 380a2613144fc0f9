"""Configure the logger, and print metrics in CloudWatch's embedded metric format.

Powertools formats log lines. Powertools is imported when a process logs its first line. The import takes several
percent of a cold start, and the first invocation of most processes logs no line.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from faultbridge.model.log import LOGGER

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger

NAMESPACE = "Faultbridge"
MAX_METRICS = 100
"""Maximum number of metrics in a line of the embedded metric format."""
MAX_VALUES = 99
"""Maximum number of values of a metric in a line; the format allows 100."""


@cache
def logger() -> Logger:
    """Return the logger of Powertools; the first call creates it, and gives LOGGER its JSON form."""
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.logging.utils import copy_config_to_registered_loggers

    of_powertools = Logger()
    copy_config_to_registered_loggers(of_powertools, include={LOGGER.name})
    return of_powertools


class _FirstLine(logging.Handler):
    """Configures Powertools at the first line, which its handlers then handle; other handlers stay."""

    def emit(self, record: logging.LogRecord) -> None:
        others = [one for one in LOGGER.handlers if one is not self]
        handlers = logger().handlers  # from now on, they are the only ones of LOGGER
        if LOGGER.isEnabledFor(record.levelno):
            for handler in handlers:
                handler.handle(record)
        for other in others:
            LOGGER.addHandler(other)


def log_as_json() -> None:
    """Let this process print its log lines as JSON, formatted by Powertools from the first line on."""
    LOGGER.setLevel(logging.DEBUG)  # the level of Powertools, from the environment, applies from the first line on
    LOGGER.propagate = False
    LOGGER.addHandler(_FirstLine())


def emit(counts: Mapping[str, int], **metadata: Any) -> None:  # noqa: ANN401 - any JSON value is allowed as metadata
    """Print counts as metrics of this stack and service, at most 100 in a line, each with `metadata`."""
    _print(counts, {}, {}, metadata)


def emit_for_cluster(
    cluster: str, counts: Mapping[str, int], durations: Mapping[str, Sequence[int]] | None = None, **metadata: str
) -> None:
    """Print counts and durations (ms, the first 99 of a name) as metrics with the dimension `cluster`."""
    _print(counts, durations or {}, {"cluster": cluster}, metadata)


def emit_for_reason(reason: str, counts: Mapping[str, int]) -> None:
    """Print counts as metrics with the dimension `reason`; print the totals over all reasons with `emit`."""
    _print(counts, {}, {"reason": reason}, {})


def _print(
    counts: Mapping[str, int],
    durations: Mapping[str, Sequence[int]],
    dimensions: Mapping[str, str],
    metadata: Mapping[str, Any],
) -> None:
    dimensions = {"stack": os.environ.get("FAULTBRIDGE_STACK", "faultbridge"), **dimensions}
    if service := os.environ.get("POWERTOOLS_SERVICE_NAME"):
        dimensions |= {"service": service}
    metrics = iter(_metrics(counts, durations))
    while some := list(islice(metrics, MAX_METRICS)):
        charged = [{"Name": name, "Unit": unit} for name, unit, values in some if is_charged(values)]
        directive = {"Namespace": NAMESPACE, "Dimensions": [list(dimensions)], "Metrics": charged}
        stamp = {"Timestamp": time.time_ns() // 1_000_000, "CloudWatchMetrics": [directive]}
        head = {"_aws": stamp} if charged else {}
        line = {**head, **dimensions, **metadata, **{name: values for name, _, values in some}}
        print(json.dumps(line, separators=(",", ":")))  # noqa: T201 - Lambda sends what is printed to CloudWatch


def is_charged(values: Sequence[float]) -> bool:
    """Return whether these values of a metric are sent to CloudWatch, which charges for each hour with data.

    A count of 0 is only a field of the log line: most counts of a small fleet are 0 for hours.
    """
    return any(values)


def _metrics(
    counts: Mapping[str, int], durations: Mapping[str, Sequence[int]]
) -> Iterator[tuple[str, str, list[float]]]:
    for name, count in counts.items():
        yield name, "Count", [float(count)]
    for name, lengths in durations.items():
        if lengths:
            yield name, "Milliseconds", [float(length) for length in lengths[:MAX_VALUES]]
