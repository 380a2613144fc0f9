"""Every captured input of agents, clouds, networks and jobs contains exactly the expected faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.data import load_catalog
from faultbridge.decoders import registry
from faultbridge.decoders.common.fields import MAX_EVIDENCE, MAX_MESSAGE
from tests.decoders.captures import HERE, Capture, expected, faults_and_clears, held
from tests.decoders.test_registry import WORDS, fuzz, outcome

SAMPLES = HERE / "samples_platform"
OWN = expected(SAMPLES / "expectations.toml")
SHARED = expected(HERE / "expectations_platform.toml")


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
def test_evidence_is_bounded_and_every_code_is_in_the_catalog(capture: Capture) -> None:
    for one in faults_and_clears(registry.decode(capture.source, (SAMPLES / capture.file).read_bytes())):
        assert len(one.evidence.encode()) <= MAX_EVIDENCE
        assert len(one.message.encode()) <= MAX_MESSAGE
        assert one.source == capture.source
        assert one.code in load_catalog().rows


def test_every_sample_file_has_expectations() -> None:
    assert {path.name for path in SAMPLES.iterdir()} - {"expectations.toml"} == {capture.file for capture in OWN}


@pytest.mark.parametrize("file", [capture.file for capture in OWN])
@fuzz
@given(data=st.data())
def test_a_damaged_sample_is_decoded_or_rejected(file: str, data: st.DataObject) -> None:
    body = bytearray((SAMPLES / file).read_bytes())
    start = data.draw(st.integers(0, len(body)))
    body[start : start + data.draw(st.integers(0, 40))] = data.draw(st.sampled_from(WORDS)).encode()
    for source in registry.names():
        assert outcome(source, bytes(body)).islower()
