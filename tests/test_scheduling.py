"""The line that repeats a failed test."""

from __future__ import annotations

from tests.scheduling import repeat_command


def test_a_failed_test_is_repeated_alone_whatever_its_markers_are():
    command = repeat_command("tests/a.py::test_b[c d]", {"--hypothesis-profile": None, "--hypothesis-seed": None})

    assert command == ".venv/bin/pytest -n 0 -m '' 'tests/a.py::test_b[c d]'"


def test_a_failed_search_is_repeated_with_the_same_random_inputs():
    command = repeat_command("tests/a.py::test_b", {"--hypothesis-profile": "search", "--hypothesis-seed": "7"})

    assert command == ".venv/bin/pytest -n 0 -m '' --hypothesis-profile=search --hypothesis-seed=7 tests/a.py::test_b"
