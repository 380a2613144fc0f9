"""For tests of any part: is this event what the contract says that producers write?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultbridge.events.validation import problems


def assert_valid_event(detail: Mapping[str, Any]) -> None:
    """Fail, naming each place, unless the `detail` of an event is valid in the closed reading, formats asserted."""
    found = problems(detail, closed=True)
    metadata = detail.get("metadata", {})
    assert not found, f"{metadata.get('event_type')} {metadata.get('event_id')}:\n" + "\n".join(found)
