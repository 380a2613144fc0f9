"""Checks of events against the contract, for the tests of any part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import jsonschema_rs
import pytest

from faultbridge.model import entries
from faultbridge.model.events.json_schema import FORMATS, closed_form, open_schema, problems
from faultbridge.model.events.registry import schema_name
from faultbridge.model.events.wire import body_of, detail_of


@cache
def compiled(name: str, *, closed: bool) -> jsonschema_rs.Draft202012Validator:
    """Return a compiled validator of an event by its schema name, which is much faster than that of the product.

    `test_parity.py` shows that both accept the same events.
    """
    schema = closed_form(open_schema(name)) if closed else open_schema(name)
    formats: dict[str, Callable[..., bool]] = {one: partial(FORMATS.conforms, format=one) for one in FORMATS.checkers}
    return jsonschema_rs.Draft202012Validator(schema, formats=formats, validate_formats=True)


def assert_valid_event(detail: Mapping[str, Any]) -> None:
    """Fail with every problem unless the `detail` of an event is valid in the closed form, formats included."""
    metadata = detail.get("metadata", {})
    name = schema_name(metadata)
    if name is None or not compiled(name, closed=True).is_valid(detail):
        lines = "\n".join(problems(detail, closed=True))
        raise AssertionError(f"{metadata.get('event_type')} {metadata.get('event_id')}:\n{lines}")


def watch_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check every entry that is sealed from now on: its event is valid, and its body can be computed from the event."""
    original = entries._seal_one

    def watched(*arguments: Any) -> entries.Entry:
        entry = original(*arguments)
        detail = detail_of(entry.body, entry.evidence)
        assert_valid_event(json.loads(detail))
        assert body_of(detail) == entry.body
        return entry

    monkeypatch.setattr(entries, "_seal_one", watched)
