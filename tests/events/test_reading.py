"""How a consumer reads events of any version."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from faultbridge.model.enums import CaseStatus, Resolution
from faultbridge.model.events import (
    CaseStatusChange,
    ClusterStatusChange,
    NodeFaultDetected,
    UntypedEvent,
    read,
    read_envelope,
)
from faultbridge.model.events.envelope import is_stub
from faultbridge.model.events.reading import Detail, upcast
from tests.events.samples import FILES, label, sample
from tests.loops import for_each


def test_an_event_is_read_as_its_type() -> None:
    event = read(json.dumps(sample("case-status-change", "closed")))
    assert isinstance(event, CaseStatusChange)
    assert event.data.from_ is CaseStatus.IN_PROGRESS
    assert event.data.resolution is Resolution.REPLACED
    assert event.data.phases["draining"] == 600_000
    assert event.metadata.occurred_at == datetime(2026, 2, 3, 5, 2, 1, tzinfo=UTC)


@for_each("path", FILES, ids=label)
def test_an_event_that_is_read_can_be_written_without_loss(path: Any) -> None:
    detail = json.loads(path.read_text(encoding="utf-8"))
    written = json.loads(read(detail).model_dump_json(by_alias=True, exclude_unset=True))
    assert written == detail


def test_a_lambda_function_reads_the_whole_envelope() -> None:
    envelope = {"detail-type": "Cluster Status Change", "detail": sample("cluster-status-change")}
    assert isinstance(read_envelope(envelope), ClusterStatusChange)


def as_unknown_type(detail: dict[str, Any]) -> None:
    detail["metadata"]["event_type"] = "Node Firmware Change"


def as_next_major_version(detail: dict[str, Any]) -> None:
    detail["metadata"]["schema_version"] = "2.0"
    detail["data"] = {"shape": "of the next version"}


def as_stub(detail: dict[str, Any]) -> None:
    detail["metadata"]["truncated"] = ["*"]
    detail["data"] = {}


@pytest.mark.parametrize("change", [as_unknown_type, as_next_major_version, as_stub])
def test_an_unreadable_event_keeps_its_position_in_the_stream(change: Callable[[dict[str, Any]], None]) -> None:
    detail = sample("node-fault-detected")
    change(detail)
    event = read(detail)
    assert isinstance(event, UntypedEvent)
    assert (event.metadata.stream, event.metadata.sequence) == ("llm-train-1/gpu-0042", 11)
    assert is_stub(event.metadata) is (change is as_stub)


def test_a_later_minor_version_is_read() -> None:
    detail = sample("node-fault-detected")
    detail["metadata"]["schema_version"] = "1.7"
    detail["data"]["thermal_margin"] = 3
    assert isinstance(read(detail), NodeFaultDetected)


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"metadata": 3}', "{", '{"metadata": {}, "data": {}}'])
def test_a_value_that_is_not_an_event_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read(text)


@pytest.mark.parametrize("envelope", [{}, {"detail": "text"}])
def test_an_envelope_without_a_detail_is_refused(envelope: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="an object as its detail"):
        read_envelope(envelope)


def versioned(version: str, **data: Any) -> Detail:
    return {"metadata": {"event_type": "T", "schema_version": version}, "data": data}


def seconds_to_milliseconds(detail: Detail) -> Detail:
    return versioned("2.0", phases_ms={name: 1000 * value for name, value in detail["data"]["phases_s"].items()})


def milliseconds_in_parts(detail: Detail) -> Detail:
    return versioned("3.0", phases=[{"name": n, "ms": ms} for n, ms in detail["data"]["phases_ms"].items()])


STEPS = {("T", "1.0"): seconds_to_milliseconds, ("T", "2.0"): milliseconds_in_parts}


@pytest.mark.parametrize(
    "detail",
    [
        versioned("1.0", phases_s={"open": 2}),
        versioned("2.0", phases_ms={"open": 2000}),
        versioned("3.0", phases=[{"name": "open", "ms": 2000}]),
    ],
    ids=lambda one: one["metadata"]["schema_version"],
)
def test_upcasters_convert_any_version_to_the_newest(detail: Detail) -> None:
    before = json.dumps(detail)
    assert upcast(detail, STEPS) == versioned("3.0", phases=[{"name": "open", "ms": 2000}])
    assert json.dumps(detail) == before


def test_an_upcaster_that_does_not_raise_the_version_is_refused() -> None:
    with pytest.raises(ValueError, match=r"T 1\.0 does not lead to a later version"):
        upcast(versioned("1.0"), {("T", "1.0"): lambda detail: detail})


@for_each("path", FILES, ids=label)
def test_the_current_version_needs_no_upcaster(path: Any) -> None:
    detail = json.loads(path.read_text(encoding="utf-8"))
    assert upcast(detail) == detail
