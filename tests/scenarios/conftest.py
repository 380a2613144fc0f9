"""What holds in every scenario, whatever it is about."""

from __future__ import annotations

import pytest

from tests.events.validate import watch_entries


@pytest.fixture(autouse=True)
def every_entry_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each entry that a scenario puts on the record makes an event that is valid in the closed reading."""
    watch_entries(monkeypatch)
