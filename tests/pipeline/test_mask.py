"""Secrets are removed from a record before it is stored, nothing else is, and the time is linear in the record."""

from __future__ import annotations

import re
import string
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from faultbridge.decide.normalize.mask_secrets import MASKED, SecretPattern, mask, secret_patterns
from tests.loops import for_each

CASES = tomllib.loads((Path(__file__).parent / "secret_cases.toml").read_text(encoding="utf-8"))
SECRETS: dict[str, str] = CASES["masked"]
HARMLESS: dict[str, str] = CASES["unchanged"]
PLACEHOLDER = re.compile(r"<([AUHBWD])(\d+)>")
ALPHABETS = {
    "A": string.ascii_letters + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "H": "0123456789abcdef",
    "B": string.ascii_letters + string.digits + "+/",
    "W": string.ascii_letters + string.digits + "_-",
    "D": string.digits,
}


def filled(template: str, random: Random) -> tuple[bytes, list[bytes]]:
    """Return a template with made-up secrets in the place of its placeholders, and the secrets."""
    secrets: list[bytes] = []

    def secret(match: re.Match[str]) -> str:
        alphabet, size = ALPHABETS[match[1]], int(match[2])
        # No separator at either end, and a letter in hexadecimal digits: other secrets are too rare to matter.
        inner = "".join(random.choices(alphabet, k=size))
        ends = {"U": alphabet, "D": alphabet, "H": "abcdef"}.get(match[1], string.ascii_letters)
        text = random.choice(ends) + inner[2:] + (random.choice("123456789") if match[1] != "U" else "Z")
        secrets.append(text.encode())
        return text

    return PLACEHOLDER.sub(secret, template).encode(), secrets


@for_each("case", SECRETS)
def test_a_secret_is_removed_and_the_text_around_it_stays(case: str) -> None:
    before, after = (SECRETS[case].split("<", 1)[0], SECRETS[case].rsplit(">", 1)[1])
    for seed in range(20):
        text, secrets = filled(SECRETS[case], Random(seed))
        masked = mask(text)
        assert MASKED in masked
        assert masked.startswith(before[:4].encode())
        assert masked.endswith((after.encode()[-3:], MASKED))
        for secret in secrets:
            assert secret not in masked


@pytest.mark.parametrize("case", HARMLESS)
def test_text_without_a_secret_is_unchanged(case: str) -> None:
    assert mask(HARMLESS[case].encode()) == HARMLESS[case].encode()


def test_no_text_of_any_captured_record_is_taken_for_a_secret() -> None:
    folder = Path(__file__).parent.parent / "decoders"
    files = [path for path in folder.glob("samples*/**/*") if path.is_file()]
    assert len(files) > 50
    for path in files:
        assert mask(path.read_bytes()) == path.read_bytes(), path.name


def test_a_secret_that_follows_another_without_a_gap_is_masked_too() -> None:
    assert mask(b"AIza" + b"a" * 30 + b"-ghp_+" + b"b" * 20) == b"AIza[masked][masked]"


@given(st.binary(max_size=400))
def test_masking_twice_changes_nothing(body: bytes) -> None:
    once = mask(body)
    assert mask(once) == once


@given(
    st.sampled_from(sorted(SECRETS)), st.randoms(use_true_random=False), st.binary(max_size=60), st.binary(max_size=60)
)
def test_a_secret_is_removed_between_any_other_lines(case: str, random: Random, before: bytes, after: bytes) -> None:
    text, secrets = filled(SECRETS[case], random)
    masked = mask(before + b"\n" + text + b"\n" + after)
    note(f"{case}: {before!r} {text!r} {after!r} {masked!r}")
    assert [secret for secret in secrets if len(secret) > 3 and secret in masked] == []
    assert mask(masked) == masked


# Linear time. `re` has no limit of its own, so properties of each pattern are checked, and crafted texts are compared.

BACKTRACKING, POSSESSIVE = {"MAX_REPEAT", "MIN_REPEAT"}, "POSSESSIVE_REPEAT"
NARROW = 300
"""Repetitions up to this number may backtrack or fail: they cost a constant for each position."""


def repetitions(parsed: Any, *, is_last: bool = True) -> Iterator[tuple[str, int, int, bool]]:
    """Yield kind, minimum, maximum, and whether nothing follows that can fail, of each repetition in a pattern."""
    items = list(parsed)
    for index, (op, value) in enumerate(items):
        ends = is_last and index == len(items) - 1
        if str(op) in {*BACKTRACKING, POSSESSIVE}:
            yield str(op), int(value[0]), int(value[1]), ends
            yield from repetitions(value[2], is_last=False)
        elif str(op) == "SUBPATTERN":
            yield from repetitions(value[3], is_last=ends)
        elif str(op) == "BRANCH":
            for branch in value[1]:
                yield from repetitions(branch, is_last=ends)
        elif str(op) in {"ASSERT", "ASSERT_NOT"}:
            yield from repetitions(value[1], is_last=False)


@for_each("pattern", secret_patterns(), ids=lambda pattern: pattern.name)
def test_no_pattern_can_scan_much_text_and_then_fail(pattern: SecretPattern) -> None:
    parsed = re._parser.parse(pattern.pattern.encode(), re.DOTALL)  # type: ignore[attr-defined]  # no public parser
    for kind, minimum, maximum, is_last in repetitions(parsed):
        if maximum > NARROW:
            assert kind == POSSESSIVE, pattern.pattern
            assert minimum <= NARROW
            # A token that is scanned to its end and then refused must not be scanned again from its middle.
            assert is_last or pattern.name in STARTS_AT_A_BOUNDARY, pattern.pattern


STARTS_AT_A_BOUNDARY = {"JSON web token, or a token in base64 JSON"}
"""Patterns whose lookbehind refuses a start within a run of the characters that they repeat."""


@for_each("pattern", secret_patterns()[1:], ids=lambda pattern: pattern.name)
def test_a_pattern_starts_with_literal_text_and_one_of_its_hints_always_occurs(pattern: SecretPattern) -> None:
    start = re.match(r"(?:\\?[^\\\[({?*+.]){1,}", pattern.pattern)
    assert start is not None
    assert pattern.hints
    assert all(hint == hint.lower() for hint in pattern.hints)
    parsed = re._parser.parse(pattern.pattern.encode())  # type: ignore[attr-defined]  # no public parser
    assert "secret" in parsed.state.groupdict


UNITS = (
    "password", "eyJ", "eyJ.", "eyJaaaaaaaa.", "://a:", "bearer ", "-----BEGIN PRIVATE KEY-----", "key_", "token=",
    "password=a ", "--a-", "-", "sig=", "mysql -a ", "curl -u a", "AKIA", "sk-", "_aaaaaaaaaaaaaaaa", "ghp_", "a", " ",
    "hf_aaaaaaaaaaaaaaaaaaa-", "$6$", "token=a", "cookie: a", "authorization: ", '"auth":"', 'secret: "', ":AA", "dapi",
    "private-lines: 1 ", "access_token ", "Q~", "[masked]", "password=[masked]", "://" + "a" * 200 + ":" + "a" * 200,
)  # fmt: skip


@pytest.mark.nightly
@pytest.mark.parametrize("unit", UNITS)
def test_crafted_text_takes_a_bounded_multiple_of_the_time_of_ordinary_text(unit: str) -> None:
    # All hints occur, so that every pattern is searched.
    start = b" ".join(hint.encode() for pattern in secret_patterns() for hint in pattern.hints) + b" "
    ordinary, crafted = (start + text * (65_536 // len(text)) for text in (ORDINARY, unit.encode()))
    quarter = crafted[:16_384]
    for _ in range(5):
        took = fastest(lambda: mask(crafted))
        multiple, growth = took / fastest(lambda: mask(ordinary)), took / fastest(lambda: mask(quarter))
        if multiple < 20 and growth < 8:
            return
    pytest.fail(f"{multiple:.0f} times as long as ordinary text, {growth:.1f} times as long as a quarter of the text")


ORDINARY = b"Feb  3 12:00:00 gpu-17 kernel: nvidia 0000:c1:00.0: the driver is loaded and nothing happened at all\n"


def fastest(work: Callable[[], object]) -> float:
    """Return the processor time of the fastest of three runs."""

    def once() -> float:
        started = time.process_time()
        work()
        return time.process_time() - started

    return min(once() for _ in range(3))
