"""Page tokens: a position is read back as it was, and a signed token is valid for its own request only."""

from __future__ import annotations

import pytest

from faultbridge.model.errors import Rejected
from faultbridge.record.timeline import MAX_CHARACTERS, TAG_BYTES, Tokens, make_token, read_token

TOKENS = Tokens(lambda: b"secret")
LONGEST = MAX_CHARACTERS * 3 // 4 - TAG_BYTES
"""The most bytes of a position whose signed token has no more than the maximum number of characters."""


@pytest.mark.parametrize("position", ["", "a", "ab", "abc", "2026-02-03T12:00:00.000Z#n-\u00e9"])
def test_a_position_is_read_back_from_its_token(position: str) -> None:
    assert read_token(make_token(position)) == position
    assert TOKENS.read("scope", TOKENS.sign("scope", position)) == position


@pytest.mark.parametrize(("scope", "secret"), [("other", b"secret"), ("scope", b"another secret")])
def test_a_token_of_another_request_or_installation_is_refused(scope: str, secret: bytes) -> None:
    token = TOKENS.sign("scope", "position")
    with pytest.raises(Rejected, match="bad_token"):
        Tokens(lambda: secret).read(scope, token)


def test_a_token_that_was_signed_before_stays_valid() -> None:
    assert TOKENS.read("scope", "XItceGG0WxyWuWMGN1zn8HBvc2l0aW9u") == "position"


def test_the_end_of_a_scope_is_not_taken_for_the_start_of_a_position() -> None:
    assert TOKENS.sign("ab", "c")[:TAG_BYTES] != TOKENS.sign("a", "bc")[:TAG_BYTES]


@pytest.mark.parametrize("token", ["", "***", "a", "AAAA", make_token("unsigned position")])
def test_a_text_that_was_never_signed_is_refused(token: str) -> None:
    with pytest.raises(Rejected, match="bad_token"):
        TOKENS.read("scope", token)


def test_a_signed_token_has_a_maximum_length() -> None:
    longest = TOKENS.sign("scope", "x" * LONGEST)
    assert len(longest) == MAX_CHARACTERS
    assert TOKENS.read("scope", longest) == "x" * LONGEST
    with pytest.raises(Rejected, match="bad_token"):
        TOKENS.read("scope", TOKENS.sign("scope", "x" * (LONGEST + 1)))
