"""Checks that apply to every scenario."""

from __future__ import annotations

import pytest

from tests.events.validate import watch_entries


@pytest.fixture(autouse=True)
def validate_every_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Validate the event of every entry that a scenario records, with the strict schema."""
    watch_entries(monkeypatch)
