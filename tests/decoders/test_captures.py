"""Every captured input contains exactly the expected faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultbridge.decoders import registry
from faultbridge.decoders.common.fields import MAX_EVIDENCE, MAX_MESSAGE
from tests.decoders.captures import HERE, SAMPLES, Capture, expected, faults_and_clears, held

OWN = expected(SAMPLES / "expectations.toml")
SHARED = expected(HERE / "expectations.toml")


def name(capture: Capture) -> str:
    return capture.file


@pytest.mark.parametrize("capture", OWN, ids=name)
def test_a_sample_contains_exactly_the_expected_faults(capture: Capture) -> None:
    body = (SAMPLES / capture.file).read_bytes()
    assert held(registry.decode(capture.source, body)) == capture.held


@pytest.mark.parametrize("capture", SHARED, ids=name)
def test_a_captured_input_contains_exactly_the_expected_faults(capture: Capture, shared: Path) -> None:
    body = (shared / "samples" / capture.file).read_bytes()
    assert held(registry.decode(capture.source, body)) == capture.held


@pytest.mark.parametrize("capture", OWN, ids=name)
def test_a_sample_is_recognized_as_its_source(capture: Capture) -> None:
    assert registry.recognize((SAMPLES / capture.file).read_bytes()) == capture.source


@pytest.mark.parametrize("capture", SHARED, ids=name)
def test_a_captured_input_is_recognized_as_no_other_source(capture: Capture, shared: Path) -> None:
    body = (shared / "samples" / capture.file).read_bytes()
    candidates = [source for source in registry.names() if registry.get(source).recognize(body[:65536])]
    assert candidates in ([capture.source], [])


@pytest.mark.parametrize("capture", OWN, ids=name)
def test_evidence_and_message_of_a_fault_are_bounded(capture: Capture) -> None:
    for one in faults_and_clears(registry.decode(capture.source, (SAMPLES / capture.file).read_bytes())):
        assert len(one.evidence.encode()) <= MAX_EVIDENCE
        assert len(one.message.encode()) <= MAX_MESSAGE
        assert one.source == capture.source


def test_every_sample_file_has_expectations() -> None:
    files = {path.name for path in SAMPLES.iterdir()} - {"expectations.toml"}
    assert files == {capture.file for capture in OWN}


@pytest.mark.parametrize("source", registry.names())
def test_the_example_of_a_source_is_in_its_format(source: str) -> None:
    decoder = registry.get(source)
    body = decoder.example.encode()
    assert decoder.name == source
    assert registry.recognize(body) == source
    registry.decode(source, body)
