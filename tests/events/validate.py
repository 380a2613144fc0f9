"""For tests of any part: is this event what the contract says that producers write?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from faultbridge.domain import entries
from faultbridge.events.validation import problems
from faultbridge.events.wire import body_of, detail_of


def assert_valid_event(detail: Mapping[str, Any]) -> None:
    """Fail, naming each place, unless the `detail` of an event is valid in the closed reading, formats asserted."""
    found = problems(detail, closed=True)
    metadata = detail.get("metadata", {})
    assert not found, f"{metadata.get('event_type')} {metadata.get('event_id')}:\n" + "\n".join(found)


def watch_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold every entry that is sealed from now on to the contract: its event is valid, and leads back to its body."""
    place = entries._place

    def watched(*given: Any) -> entries.Entry:
        entry = place(*given)
        detail = detail_of(entry.body, entry.evidence)
        assert_valid_event(json.loads(detail))
        assert body_of(detail) == entry.body
        return entry

    monkeypatch.setattr(entries, "_place", watched)
