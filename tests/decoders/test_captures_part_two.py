"""Captures of agents, clouds, networks and jobs hold what is written down for them, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.data import catalogue
from faultbridge.decoders import registry
from faultbridge.decoders.base import MAX_EVIDENCE, MAX_MESSAGE, judgements
from tests.decoders.captures import HERE, Capture, expected, held
from tests.decoders.test_registry import WORDS, fuzz, outcome

SAMPLES = HERE / "samples_part_two"
OWN = expected(SAMPLES / "expectations.toml")
SHARED = expected(HERE / "expectations_part_two.toml")


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
def test_what_travels_with_a_fault_is_bounded_and_its_code_is_known(capture: Capture) -> None:
    for told in judgements(registry.decode(capture.source, (SAMPLES / capture.file).read_bytes())):
        assert len(told.evidence.encode()) <= MAX_EVIDENCE
        assert len(told.message.encode()) <= MAX_MESSAGE
        assert told.source == capture.source
        assert told.code in catalogue().rows


def test_every_sample_is_written_down() -> None:
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
