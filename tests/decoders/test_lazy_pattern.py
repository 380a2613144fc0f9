"""Patterns that are compiled at their first use."""

from __future__ import annotations

import re
from unittest import mock

import pytest

from faultbridge.decode.frames.decoder import lazy_pattern


def test_a_pattern_is_compiled_once_and_not_before_its_first_use() -> None:
    with mock.patch.object(re, "compile", wraps=re.compile) as compiled:
        pattern = lazy_pattern(r"(a+)b", re.IGNORECASE)
        assert compiled.call_count == 0
        assert [pattern.match(text) is not None for text in ("AAB", "b", "ab")] == [True, False, True]
        assert compiled.call_count == 1


def test_a_pattern_has_what_the_compiled_one_has() -> None:
    pattern = lazy_pattern(rb"(?P<name>a+)b")
    assert pattern.sub(b"-", b"aab") == b"-"
    assert pattern.pattern == rb"(?P<name>a+)b"
    assert pattern.groupindex == {"name": 1}
    with pytest.raises(AttributeError):
        pattern.unknown  # noqa: B018 - the access raises
