"""Every capture, ours and those kept beside the repository, holds what is written down for it, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.decoders import registry
from faultbridge.decoders.base import MAX_EVIDENCE, MAX_MESSAGE, judgements
from tests.decoders.captures import HERE, SAMPLES, Capture, expected, held

OWN = expected(SAMPLES / "expectations.toml")
SHARED = expected(HERE / "expectations.toml")


def name(capture: Capture) -> str:
    return capture.file


@pytest.mark.parametrize("capture", OWN, ids=name)
def test_a_sample_of_ours_holds_what_is_written_down(capture: Capture) -> None:
    body = (SAMPLES / capture.file).read_bytes()
    assert held(registry.decode(capture.source, body)) == capture.held


@pytest.mark.parametrize("capture", SHARED, ids=name)
def test_a_capture_of_others_holds_what_is_written_down(capture: Capture, shared: Path) -> None:
    body = (shared / "samples" / capture.file).read_bytes()
    assert held(registry.decode(capture.source, body)) == capture.held


@pytest.mark.parametrize("capture", OWN, ids=name)
def test_a_sample_is_recognised_for_what_it_is(capture: Capture) -> None:
    assert registry.recognize((SAMPLES / capture.file).read_bytes()) == capture.source


@pytest.mark.parametrize("capture", SHARED, ids=name)
def test_a_capture_is_never_taken_for_another_source(capture: Capture, shared: Path) -> None:
    body = (shared / "samples" / capture.file).read_bytes()
    candidates = [source for source in registry.names() if registry.get(source).recognize(body[:65536])]
    assert candidates in ([capture.source], [])


@pytest.mark.parametrize("capture", OWN, ids=name)
def test_what_travels_with_a_fault_is_bounded(capture: Capture) -> None:
    for told in judgements(registry.decode(capture.source, (SAMPLES / capture.file).read_bytes())):
        assert len(told.evidence.encode()) <= MAX_EVIDENCE
        assert len(told.message.encode()) <= MAX_MESSAGE
        assert told.source == capture.source


def test_every_sample_is_written_down() -> None:
    files = {path.name for path in SAMPLES.iterdir()} - {"expectations.toml"}
    assert files == {capture.file for capture in OWN}


@pytest.mark.parametrize("source", registry.names())
def test_an_example_is_of_the_format_that_it_is_an_example_of(source: str) -> None:
    decoder = registry.get(source)
    body = decoder.example.encode()
    assert decoder.name == source
    assert registry.recognize(body) == source
    registry.decode(source, body)
