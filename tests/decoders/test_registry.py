"""The registry: every body is decoded or `Rejected`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decode import registry
from faultbridge.decode.frames.decoder import truncate
from faultbridge.model.errors import Rejected
from tests.decoders.builders import WORDS, fuzz, outcome
from tests.decoders.captures import SAMPLES, expected
from tests.loops import for_each

PLAIN_REASONS = {"empty": b" \n\t", "binary": b"\x1f\x8b\0\0", "unknown_format": b"just some words"}


@pytest.mark.nightly
@pytest.mark.parametrize("source", registry.names())
@fuzz
@given(body=st.lists(st.sampled_from(WORDS), max_size=12).map("".join))
def test_any_text_is_decoded_or_rejected(source: str, body: str) -> None:
    assert outcome(source, body.encode()).islower()


@pytest.mark.nightly
@pytest.mark.parametrize("source", registry.names())
@fuzz
@given(body=st.binary(max_size=300))
def test_any_bytes_are_decoded_or_rejected(source: str, body: bytes) -> None:
    assert outcome(source, body).islower()


@pytest.mark.nightly
@pytest.mark.parametrize("file", [capture.file for capture in expected(SAMPLES / "expectations.toml")])
@fuzz
@given(data=st.data())
def test_a_damaged_sample_is_decoded_or_rejected(file: str, data: st.DataObject) -> None:
    body = bytearray((SAMPLES / file).read_bytes())
    start = data.draw(st.integers(0, len(body)))
    body[start : start + data.draw(st.integers(0, 40))] = data.draw(st.sampled_from(WORDS)).encode()
    for source in registry.names():
        assert outcome(source, bytes(body)).islower()


@pytest.mark.parametrize(("reason", "body"), PLAIN_REASONS.items())
def test_input_in_no_known_format_is_rejected_with_a_reason(reason: str, body: bytes) -> None:
    with pytest.raises(Rejected) as rejected:
        registry.recognize(body)
    assert rejected.value.reason == reason


def test_the_rejection_of_an_ambiguous_input_names_the_candidates() -> None:
    body = b"[ 1.0] NVRM: loading\nDCGM_FI_DEV_GPU_TEMP{} 3\n"
    with pytest.raises(Rejected, match="kernel-log or dcgm-metrics"):
        registry.recognize(body)


def test_an_unknown_source_is_rejected() -> None:
    with pytest.raises(Rejected) as rejected:
        registry.decode("crystal-ball", b"x")
    assert rejected.value.reason == "unknown_source"


def test_only_the_requested_decoder_is_imported() -> None:
    program = (
        "import sys; from faultbridge.decode import registry; registry.decode('link-state', b'[]');"
        "others = ('faultbridge.decode.kernel', 'faultbridge.decode.dcgm', 'xml.');"
        "print([m for m in sys.modules if m.startswith(others)])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@given(st.text(), st.integers(8, 64))
def test_a_truncated_text_fits_the_limit_and_stays_valid(text: str, most: int) -> None:
    short = truncate(text, most)
    assert len(short.encode()) <= most
    assert short == text or text.encode().startswith(short.removesuffix("\u2026").encode())


PAGES = Path(__file__).parents[2] / "docs" / "sources"


@for_each("source", registry.names())
def test_each_source_has_a_page_about_its_input_and_its_faults(source: str) -> None:
    page = (PAGES / f"{source}.md").read_text("utf-8")
    assert page.startswith(f"# `{source}`\n")
    headings = [line for line in page.splitlines() if line.startswith("## ")]
    assert headings[:3] == ["## How to send data", "## What it detects", "## What it does not detect"]


@for_each("source", registry.names())
def test_the_example_of_each_source_is_recognized_and_yields_observations(source: str) -> None:
    decoder = registry.get(source)
    assert registry.recognize(decoder.example.encode()) == source
    assert registry.decode(source, decoder.example.encode()) != ()


FAULT = {"kind": "fault", "code": "xid.79", "component": {"type": "gpu", "pci": "0000:c1:00"}, "message": "lost"}


@pytest.mark.parametrize("value", [{}, [], {"a": 1}, 7, True, None])
def test_a_component_type_that_is_no_text_is_rejected(value: object) -> None:
    document = {**FAULT, "component": {"type": value}}
    with pytest.raises(Rejected) as rejected:
        registry.decode("faultbridge", json.dumps(document).encode())
    assert rejected.value.reason == "wrong_shape"


def test_a_normalized_fault_is_read() -> None:
    (fault,) = registry.decode("faultbridge", json.dumps(FAULT).encode())
    assert fault.source == "faultbridge"
