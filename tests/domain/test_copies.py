"""Copies of frozen values are those of `dataclasses.replace`, and made values those of their classes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.cases import Attempt, Phase
from faultbridge.model.copies import maker, replace
from faultbridge.model.nodes import NodeKey


@dataclass(frozen=True, slots=True)
class Plain:
    """A class like those of the domain: with slots, defaults and a default factory."""

    name: str
    number: int = 3
    parts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class WithoutSlots:
    """A class without a twin."""

    name: str
    number: int = 3


@dataclass(frozen=True, slots=True)
class Doubling:
    """A class that changes its fields itself."""

    number: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "number", self.number * 2)


@dataclass(frozen=True, slots=True)
class Wider(Plain):
    """A class with a base class."""

    width: int = 1


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


@pytest.mark.parametrize("value", [Plain("a", 4, {"x": 1}), WithoutSlots("a"), Doubling(2), Wider("a", width=9)])
def test_a_copy_equals_that_of_the_dataclass_module_and_is_frozen(value) -> None:
    copied = replace(value, number=7)
    assert copied == dataclasses.replace(value, number=7)
    assert type(copied) is type(value)
    with pytest.raises(dataclasses.FrozenInstanceError):
        copied.number = 8


@pytest.mark.parametrize("kind", [Plain, WithoutSlots, Wider])
def test_a_made_value_equals_one_of_its_class_and_is_frozen(kind) -> None:
    made = maker(kind)({"name": "a"})
    assert made == kind("a")
    assert type(made) is kind
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.name = "b"


def test_a_class_that_changes_its_fields_still_does() -> None:
    assert maker(Doubling)({"number": 2}) == Doubling(2)
    assert maker(NodeKey)({"cluster": "c", "node": "n"}) == NodeKey("c", "n")


def test_two_made_values_share_no_default() -> None:
    make = maker(Plain)
    assert make({"name": "a"}).parts is not make({"name": "a"}).parts


@pytest.mark.parametrize("values", [{}, {"name": "a", "colour": "red"}])
def test_a_missing_field_and_an_unknown_name_are_refused(values) -> None:
    with pytest.raises(TypeError):
        maker(Plain)(values)


def test_a_class_is_copied_and_made_without_any_copy_before() -> None:
    new = dataclasses.make_dataclass("New", [("name", str), ("number", int, 3)], frozen=True, slots=True)
    assert replace(new("a", 4), name="b") == new("b", 4)
    other = dataclasses.make_dataclass("Other", [("name", str), ("number", int, 3)], frozen=True, slots=True)
    assert maker(other)({"name": "a"}) == other("a", 3)
