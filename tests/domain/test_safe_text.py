"""Safe text: no character that changes a terminal or the order of reading is left, and JSON keeps its meaning."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.safe_text import visible, visible_line

ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from("\x1b\x07\x9b\u202e\u2066\u200f\x7f\r"))


@given(ANY_TEXT)
def test_no_control_or_format_character_is_left_but_tab_and_newline(text: str) -> None:
    shown = visible(text)
    left = {character for character in shown if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}}
    assert left <= {"\n", "\t"}
    assert not any(unicodedata.bidirectional(character) in BIDIRECTIONAL for character in shown)
    assert visible(shown) == shown


BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.slow
@given(st.recursive(ANY_TEXT | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
def test_json_keeps_its_meaning(value: object) -> None:
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value


@given(st.text(st.characters(categories=["L", "N", "P", "S"]) | st.just(" ")))
def test_ordinary_text_of_any_language_is_unchanged(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\u001b[2J"),
        ("\x9b31m", r"\u009b31m"),
        ("gpu\u202ek0", r"gpu\u202ek0"),
        ("a\x7fb", r"a\u007fb"),
        ("a\rb", r"a\rb"),
        ("one\n\ttwo", "one two"),
    ],
)
def test_the_escape_of_a_character_is_shown_in_its_place(text: str, shown: str) -> None:
    assert visible_line(text) == shown
