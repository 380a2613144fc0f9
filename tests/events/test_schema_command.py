"""`faultbridge schema` works without a stack and without the repository."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from faultbridge.cli.app import run
from faultbridge.model.events.json_schema import EVENT_MODELS, closed_form, open_schema
from tests.events.patterns import envelope
from tests.events.samples import FILES, SCHEMAS, label, sample
from tests.loops import for_each

CAPTURE = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test runs in a folder without schemas."""
    monkeypatch.chdir(tmp_path)


def write(document: object) -> str:
    """Write a document to a file and return its name."""
    Path("event.json").write_text(json.dumps(document), encoding="utf-8")
    return "event.json"


def one_line(text: str) -> str:
    """Return the error after checking that it is one line."""
    assert text.startswith("faultbridge: ")
    assert text.count("\n") == 1
    return text


def test_list_prints_every_event_with_its_version(capsys: CAPTURE) -> None:
    assert run(["schema", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["event"] for one in listed] == list(EVENT_MODELS)
    assert {one["version"] for one in listed} == {"1.0"}
    assert run(["schema", "list"]) == 0
    assert "Node Fault Detected" in capsys.readouterr().out


@pytest.mark.parametrize("event", ["job-change", "job-change@1"])
def test_show_prints_the_published_schema(event: str, capsys: CAPTURE) -> None:
    assert run(["schema", "show", event]) == 0
    assert json.loads(capsys.readouterr().out) == open_schema("job-change")
    assert open_schema("job-change") == json.loads((SCHEMAS.root / "job-change" / "v1.json").read_text("utf-8"))


def test_show_prints_the_closed_form_on_request(capsys: CAPTURE) -> None:
    assert run(["schema", "show", "job-change", "--closed"]) == 0
    assert json.loads(capsys.readouterr().out) == closed_form(open_schema("job-change"))


@pytest.mark.parametrize("event", ["job-changed", "job-change@2", "job-change@"])
def test_an_unknown_event_is_wrong_usage(event: str, capsys: CAPTURE) -> None:
    assert run(["schema", "show", event]) == 2
    one_line(capsys.readouterr().err)


@for_each("path", FILES, ids=label)
def test_every_sample_is_valid_as_detail_and_as_envelope(path: Path) -> None:
    assert run(["schema", "validate", str(path), "--closed"]) == 0
    if label(path) != "event-stub-ordinary":
        assert run(["schema", "validate", write(envelope(path))]) == 0


def test_an_invalid_event_is_reported_with_the_field(capsys: CAPTURE) -> None:
    detail = sample("node-status-change")
    del detail["data"]["to"]
    assert run(["schema", "validate", write(detail), "--json"]) == 1
    output = capsys.readouterr()
    assert "'to' is a required property" in one_line(output.err)
    verdict = json.loads(output.out)[0]
    assert (verdict["event"], verdict["valid"]) == ("node-status-change", False)
    assert verdict["problems"] == ["/data: 'to' is a required property"]


def test_an_unknown_value_is_valid_for_consumers_only() -> None:
    detail = sample("node-status-change")
    detail["data"]["to"] = "submerged"
    assert run(["schema", "validate", write(detail)]) == 0
    assert run(["schema", "validate", write(detail), "--closed"]) == 1


def test_a_list_of_events_is_validated_one_by_one(capsys: CAPTURE) -> None:
    events = [sample("node-status-change"), {"metadata": {}}, sample("job-change")]
    assert run(["schema", "validate", write(events), "--jsonl"]) == 1
    output = capsys.readouterr()
    assert [json.loads(line)["valid"] for line in output.out.splitlines()] == [True, False, True]
    assert "1 of 3 events are not valid" in one_line(output.err)


def test_a_wrong_detail_type_is_found(capsys: CAPTURE) -> None:
    event = envelope(FILES[0]) | {"detail-type": "Job Change"}
    assert run(["schema", "validate", write(event)]) == 1
    assert "/detail-type: 'Job Change' is not" in one_line(capsys.readouterr().err)


@pytest.mark.parametrize("document", [3, "text", None, {"detail": 3}, {"detail": {"metadata": 3}}, {}])
def test_json_that_is_not_an_event_is_not_valid(document: Any, capsys: CAPTURE) -> None:
    assert run(["schema", "validate", write(document)]) == 1
    one_line(capsys.readouterr().err)


@pytest.mark.parametrize(
    "raw", [b"", b"  \n", b"{", b"\xff\xfe", b"[" * 100_000], ids=["empty", "blank", "cut", "utf16", "deep"]
)
def test_input_that_is_not_json_is_refused(raw: bytes, monkeypatch: pytest.MonkeyPatch, capsys: CAPTURE) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw)))
    assert run(["schema", "validate", "-"]) == 65
    one_line(capsys.readouterr().err)


def test_a_missing_file_is_wrong_usage(capsys: CAPTURE) -> None:
    assert run(["schema", "validate", "nowhere.json"]) == 2
    one_line(capsys.readouterr().err)
