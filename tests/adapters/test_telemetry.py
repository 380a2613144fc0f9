"""Metric lines and log lines of the functions."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics import MetricUnit

from faultbridge.adapters.aws.telemetry import emit, emit_for_cluster, emit_for_reason

FIRST_LINES = """
import sys
from logging.handlers import BufferingHandler
from faultbridge.adapters.aws import telemetry
from faultbridge.model.log import LOGGER, log_cause
telemetry.log_as_json()
assert "aws_lambda_powertools" not in sys.modules
other = BufferingHandler(9)
LOGGER.addHandler(other)
LOGGER.debug("not logged at the default level")
log_cause("first", reason="r", cluster="c")
log_cause("second", reason="r")
telemetry.logger().error("third", failure="f")
assert [line.msg for line in other.buffer].count("second") == LOGGER.isEnabledFor(20)
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTBRIDGE_STACK", "test")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "ingest")


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Return the printed lines without their times."""
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line in lines:
        assert line["_aws"].pop("Timestamp") > 1_600_000_000_000
    return lines


def by_powertools(
    counts: dict[str, int], durations: dict[str, list[int]], metadata: dict[str, Any], **dimensions: str
) -> None:
    """Print the same metrics with Powertools."""
    metrics = Metrics(namespace="Faultbridge")
    for name, value in {"stack": "test", **dimensions}.items():
        metrics.add_dimension(name, value)
    for name, count in counts.items():
        metrics.add_metric(name, MetricUnit.Count, count)
    for name, lengths in durations.items():
        for length in lengths:
            metrics.add_metric(name, MetricUnit.Milliseconds, length)
    for name, value in metadata.items():
        metrics.add_metadata(name, value)
    metrics.flush_metrics()


def test_a_line_is_that_of_powertools(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"A": 1, "B": 5}, kind="outcomes", records={"recorded": ["r"]})
    emit_for_cluster("train", {"A": 2}, {"Seconds": [3, 4], "None": []}, code="xid_79")
    emit_for_reason("unavailable", {"A": 3})
    ours = printed(capsys)
    by_powertools({"A": 1, "B": 5}, {}, {"kind": "outcomes", "records": {"recorded": ["r"]}})
    by_powertools({"A": 2}, {"Seconds": [3, 4]}, {"code": "xid_79"}, cluster="train")
    by_powertools({"A": 3}, {}, {}, reason="unavailable")
    theirs = printed(capsys)
    assert ours == theirs
    assert [list(line) for line in ours] == [list(line) for line in theirs]


def test_a_count_of_0_is_a_field_of_the_line_and_no_metric(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"A": 1, "B": 0})
    (line,) = printed(capsys)
    assert (line["A"], line["B"]) == ([1.0], [0.0])
    assert line["_aws"]["CloudWatchMetrics"][0]["Metrics"] == [{"Name": "A", "Unit": "Count"}]


def test_a_line_whose_counts_are_all_0_has_no_metric(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"A": 0}, kind="nothing")
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert line == {"stack": "test", "service": "ingest", "kind": "nothing", "A": [0.0]}


def test_without_a_service_a_line_has_no_service(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("POWERTOOLS_SERVICE_NAME")
    emit({"A": 1})
    (line,) = printed(capsys)
    assert line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["stack"]]


def test_a_line_has_at_most_100_metrics_and_99_values_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    emit({f"M{number}": 1 for number in range(201)}, kind="many")
    lines = printed(capsys)
    assert [len(line["_aws"]["CloudWatchMetrics"][0]["Metrics"]) for line in lines] == [100, 100, 1]
    assert {line["kind"] for line in lines} == {"many"}
    emit_for_cluster("train", {}, {"Seconds": list(range(150))})
    (line,) = printed(capsys)
    assert line["Seconds"] == list(range(99))


def test_no_metrics_print_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    emit_for_cluster("train", {}, {"Seconds": []}, code="xid_79")
    assert printed(capsys) == []


@pytest.mark.parametrize(
    ("level", "messages"),
    [
        (None, ["first", "second", "third"]),
        ("DEBUG", ["not logged at the default level", "first", "second", "third"]),
        ("ERROR", ["third"]),
    ],
)
def test_the_first_line_has_the_form_and_the_level_of_the_others(level: str | None, messages: list[str]) -> None:
    chosen = {} if level is None else {"POWERTOOLS_LOG_LEVEL": level}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_LINES],
        env={"POWERTOOLS_SERVICE_NAME": "ingest", **chosen},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["message"] for line in lines] == messages
    assert {line["service"] for line in lines} == {"ingest"}
    assert [line["cluster"] for line in lines if line["message"] == "first"] == ["c"] * ("first" in messages)
    assert done.stderr == ""
