"""Checks of events against the contract, for the tests of any part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pytest

from faultbridge.model import entries
from faultbridge.model.events.json_schema import problems
from faultbridge.model.events.wire import body_of, detail_of


def assert_valid_event(detail: Mapping[str, Any]) -> None:
    """Fail with every problem unless the `detail` of an event is valid in the closed form, formats included."""
    found = problems(detail, closed=True)
    metadata = detail.get("metadata", {})
    assert not found, f"{metadata.get('event_type')} {metadata.get('event_id')}:\n" + "\n".join(found)


@lru_cache(maxsize=20_000)
def _check_once(detail: str) -> None:
    """Check the text of an event, once in a process: the histories of many tests begin with the same events."""
    assert_valid_event(json.loads(detail))


def watch_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check every entry that is sealed from now on: its event is valid, and its body can be computed from the event."""
    original = entries._seal_one

    def watched(*arguments: Any) -> entries.Entry:
        entry = original(*arguments)
        detail = detail_of(entry.body, entry.evidence)
        _check_once(detail)
        assert body_of(detail) == entry.body
        return entry

    monkeypatch.setattr(entries, "_seal_one", watched)
