"""Reading events, as a consumer does: any version, any order of keys, any later addition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from faultbridge.events.envelope import Event, UntypedEvent
from faultbridge.events.registry import STUB, model_of, schema_name
from faultbridge.events.upcasters import upcast


def read(detail: str | bytes | Mapping[str, Any]) -> Event:
    """Read the `detail` of an event.

    A later type, a later major version and a stub come back as UntypedEvent. Raises ValueError (pydantic's
    ValidationError is one) for what is no event of Faultbridge.
    """
    loaded = json.loads(detail) if isinstance(detail, str | bytes) else dict(detail)
    if not isinstance(loaded, dict) or not isinstance(loaded.get("metadata"), dict):
        raise ValueError("an event is a JSON object with metadata and data")  # noqa: TRY004 - bad input, no bad call
    current = upcast(loaded)
    return _model_for(current["metadata"]).model_validate_json(json.dumps(current))


def read_envelope(event: Mapping[str, Any]) -> Event:
    """Read a whole EventBridge event, as a Lambda function receives it."""
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise ValueError("an EventBridge event has an object as its detail")  # noqa: TRY004 - bad input, no bad call
    return read(detail)


def _model_for(metadata: Mapping[str, Any]) -> type[Event]:
    model = model_of(str(metadata.get("event_type")))
    if model is None or schema_name(metadata) == STUB:
        return UntypedEvent
    major = str(metadata.get("schema_version")).partition(".")[0]
    later = major.isdigit() and int(major) > int(model.version.partition(".")[0])
    return UntypedEvent if later else model
