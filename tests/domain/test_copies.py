"""Copies of frozen values are those of `dataclasses.replace`."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.domain.cases import Attempt, Phase
from faultbridge.domain.copies import replace

CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "number": st.integers(),
        "step": st.none() | st.text(),
        "phase": st.sampled_from(Phase),
        "steps": st.dictionaries(st.text(max_size=3), st.text(max_size=3)),
    },
)


@given(CHANGES, CHANGES)
def test_a_copy_equals_that_of_the_standard_library(first: dict, second: dict) -> None:
    attempt = Attempt(1, Phase.ADMITTED)
    copied = replace(replace(attempt, **first), **second)
    assert copied == dataclasses.replace(dataclasses.replace(attempt, **first), **second)
    assert attempt == Attempt(1, Phase.ADMITTED)


def test_a_copy_is_frozen_and_of_the_same_class() -> None:
    copied = replace(Attempt(1, Phase.ADMITTED), number=2)
    assert type(copied) is Attempt
    with pytest.raises(dataclasses.FrozenInstanceError):
        copied.number = 3  # type: ignore[misc]  # the value is frozen


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        replace(Attempt(1, Phase.ADMITTED), nonsense=1)
