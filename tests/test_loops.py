"""A loop over values fails once and names every value that failed."""

from __future__ import annotations

import pytest

from tests.loops import for_each


def test_every_failure_is_listed_with_its_value() -> None:
    seen = []

    @for_each(("one", "other"), [(1, 1), (1, 2), (3, 3), (3, 4)], ids=lambda value: f"<{value}>")
    def check(extra: int, one: int, other: int) -> None:
        seen.append(one + extra)
        assert one == other

    with pytest.raises(pytest.fail.Exception) as failed:
        check(extra=1)
    assert seen == [2, 2, 4, 4]
    first, *lines = str(failed.value).splitlines()
    assert first == "2 of 4 values:"
    assert [line.partition(":")[0] for line in lines if line.startswith("<")] == ["<1>, <2>", "<3>, <4>"]


def test_loops_in_loops_list_the_failures_of_each() -> None:
    @for_each("one", [1, 2])
    @for_each("other", [1, 2])
    def check(one: int, other: int) -> None:
        assert one == other

    with pytest.raises(pytest.fail.Exception, match=r"(?s)2 of 2 values:.*1 of 2 values:.*1 of 2 values:"):
        check()


def test_a_loop_without_a_value_is_an_error() -> None:
    with pytest.raises(AssertionError, match="no value"):
        for_each("one", [])


@for_each("one", [1, 2, 3])
def test_a_loop_gets_its_fixtures(one: int, request: pytest.FixtureRequest) -> None:
    assert one
    assert request.node.name == "test_a_loop_gets_its_fixtures"
