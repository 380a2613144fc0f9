"""Every captured input contains exactly the expected faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import MAX_EVIDENCE, MAX_MESSAGE
from tests.decoders.builders import WORDS, fuzz, outcome
from tests.decoders.captures import HERE, PLATFORM_SAMPLES, SAMPLES, Capture, expected, faults_and_clears, held
from tests.loops import for_each

OWN = [(folder, one) for folder in (SAMPLES, PLATFORM_SAMPLES) for one in expected(folder / "expectations.toml")]
SHARED = [*expected(HERE / "expectations.toml"), *expected(HERE / "expectations_platform.toml")]


def name(capture: Capture | Path) -> str:
    return capture.name if isinstance(capture, Path) else capture.file


def of_folder(folder: Path) -> list[str]:
    return [capture.file for place, capture in OWN if place == folder]


@for_each(("folder", "capture"), OWN, ids=name)
def test_a_sample_contains_exactly_the_expected_faults(folder: Path, capture: Capture) -> None:
    body = (folder / capture.file).read_bytes()
    assert held(registry.decode(capture.source, body)) == capture.held


@for_each("capture", SHARED, ids=name)
def test_a_captured_input_contains_exactly_the_expected_faults(capture: Capture, shared: Path) -> None:
    body = (shared / "samples" / capture.file).read_bytes()
    assert held(registry.decode(capture.source, body)) == capture.held


@for_each(("folder", "capture"), OWN, ids=name)
def test_a_sample_is_recognized_as_its_source(folder: Path, capture: Capture) -> None:
    assert registry.recognize((folder / capture.file).read_bytes()) == capture.source


@for_each("capture", SHARED, ids=name)
def test_a_captured_input_is_recognized_as_no_other_source(capture: Capture, shared: Path) -> None:
    body = (shared / "samples" / capture.file).read_bytes()
    candidates = [source for source in registry.names() if registry.get(source).recognize(body[:65536])]
    assert candidates in ([capture.source], [])


@for_each(("folder", "capture"), OWN, ids=name)
def test_evidence_and_message_of_a_fault_are_bounded(folder: Path, capture: Capture) -> None:
    for one in faults_and_clears(registry.decode(capture.source, (folder / capture.file).read_bytes())):
        assert len(one.evidence.encode()) <= MAX_EVIDENCE
        assert len(one.message.encode()) <= MAX_MESSAGE
        assert one.source == capture.source


@for_each("file", of_folder(PLATFORM_SAMPLES))
def test_every_code_of_a_platform_sample_is_in_the_catalog(file: str) -> None:
    (source,) = (one.source for folder, one in OWN if (folder, one.file) == (PLATFORM_SAMPLES, file))
    observations = registry.decode(source, (PLATFORM_SAMPLES / file).read_bytes())
    assert [one.code for one in faults_and_clears(observations) if one.code not in load_catalog().rows] == []


@pytest.mark.parametrize("folder", [SAMPLES, PLATFORM_SAMPLES], ids=name)
def test_every_sample_file_has_expectations(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} - {"expectations.toml"} == set(of_folder(folder))


@pytest.mark.nightly
@pytest.mark.parametrize("file", of_folder(PLATFORM_SAMPLES))
@fuzz
@given(data=st.data())
def test_a_damaged_sample_is_decoded_or_rejected(file: str, data: st.DataObject) -> None:
    body = bytearray((PLATFORM_SAMPLES / file).read_bytes())
    start = data.draw(st.integers(0, len(body)))
    body[start : start + data.draw(st.integers(0, 40))] = data.draw(st.sampled_from(WORDS)).encode()
    for source in registry.names():
        assert outcome(source, bytes(body)).islower()


@for_each("source", registry.names())
def test_the_example_of_a_source_is_in_its_format(source: str) -> None:
    decoder = registry.get(source)
    body = decoder.example.encode()
    assert decoder.name == source
    assert registry.recognize(body) == source
    registry.decode(source, body)
