"""Verification reports: a short one is in the entry alone, and a longer one is also stored as an object."""

from __future__ import annotations

import pytest

from faultbridge.repair.attempt.intent import MAX_INLINE_BYTES, store_report
from tests.builders import KEY, NOON
from tests.sim.fakes import FakeObjects


@pytest.mark.parametrize(("length", "stored"), [(0, 0), (MAX_INLINE_BYTES, 0), (MAX_INLINE_BYTES + 1, 1)])
def test_only_a_report_that_does_not_fit_in_the_entry_is_stored(length: int, stored: int) -> None:
    objects = FakeObjects()
    text, facts = store_report(objects, KEY, b"x" * length, NOON)
    assert len(text) == min(length, MAX_INLINE_BYTES)
    assert list(objects.stored) == list(facts.values())
    assert len(objects.stored) == stored
