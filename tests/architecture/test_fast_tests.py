"""The list of slow tests, which `make test-fast` leaves out, names existing tests, and so does that of waiting ones."""

from __future__ import annotations

import pytest

from tests.architecture.project import ROOT
from tests.scheduling import SLOW_TESTS, WAITING_TESTS, is_slow, start_order


@pytest.mark.parametrize("start", SLOW_TESTS)
def test_a_slow_test_exists(start: str) -> None:
    file, _, test = start.partition("::")
    found = [path for path in ROOT.glob(f"{file}*") if path.suffix == ".py"]
    assert found
    name = test.rpartition("::")[2]
    assert any(f"def {name}" in path.read_text(encoding="utf-8") for path in found)


def test_the_tests_that_wait_are_slow_and_start_before_those_that_compute() -> None:
    assert all(is_slow(file) for file in WAITING_TESTS)
    stacks, waiting, computing = map(start_order, ("tests/e2e/test_demo.py", WAITING_TESTS[0], "tests/data/test_x.py"))
    assert stacks < waiting < computing


def test_the_marker_of_a_slow_test_deselects_it(request: pytest.FixtureRequest) -> None:
    items = [item for item in request.session.items if is_slow(item.nodeid)]
    assert all(item.get_closest_marker("slow") for item in items)
    assert not is_slow(request.node.nodeid)
