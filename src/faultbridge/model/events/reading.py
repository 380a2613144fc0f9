"""Reads events of any version; keys may be in any order, and unknown fields are ignored.

An upcaster converts an event of one version, as plain JSON, to a later version. Stored events are never rewritten. New
optional fields and new values of enumerations need no upcaster.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from faultbridge.model.events.envelope import Event, UntypedEvent
from faultbridge.model.events.registry import STUB, model_of, schema_name

Detail = dict[str, dict[str, object]]
Upcaster = Callable[[Detail], Detail]

# (event type, old version) -> upcaster to the next version. Version 1.0 is the first, so there is none yet.
# An upcaster also sets `metadata.schema_version`. Values that the old version does not contain stay null or absent.
UPCASTERS: Mapping[tuple[str, str], Upcaster] = {}


def read(detail: str | bytes | Mapping[str, object]) -> Event:
    """Read the `detail` of an event, given as JSON text or as a parsed JSON object.

    Returns an `UntypedEvent` for an event without data because it is too large for the bus, an unknown event type, or a
    major version later than the supported one. Raises `ValueError` if the detail is not an event of Faultbridge;
    pydantic's `ValidationError` is a `ValueError`.

        event = read(record["detail"])
        if isinstance(event, CaseStatusChange) and event.data.resolution: ...
    """
    loaded = json.loads(detail) if isinstance(detail, str | bytes) else dict(detail)
    if not isinstance(loaded, dict) or not isinstance(loaded.get("metadata"), dict):
        raise ValueError("not an event: expected a JSON object with metadata and data")  # noqa: TRY004 - bad input, no bad call
    current = upcast(loaded)
    return _model_for(current["metadata"]).model_validate_json(json.dumps(current))


def read_envelope(event: Mapping[str, object]) -> Event:
    """Read a complete EventBridge event, as a Lambda function receives it.

    Raises `ValueError` if the event does not contain an event of Faultbridge.
    """
    detail = event.get("detail")
    if not isinstance(detail, Mapping):
        raise ValueError("not an EventBridge event: expected an object as its detail")  # noqa: TRY004 - bad input, no bad call
    return read(detail)


def upcast(detail: Detail, upcasters: Mapping[tuple[str, str], Upcaster] = UPCASTERS) -> Detail:
    """Convert the detail of an event to the latest version to which `upcasters` lead.

    Without an upcaster for its type and version, the detail is returned unchanged. Raises `ValueError` if an upcaster
    does not raise the version.
    """
    while upcaster := upcasters.get(_version_key(detail)):
        event_type, version = _version_key(detail)
        detail = upcaster(detail)
        if _version_number(_version_key(detail)[1]) <= _version_number(version):
            raise ValueError(f"the upcaster of {event_type} {version} does not lead to a later version")
    return detail


def _version_key(detail: Detail) -> tuple[str, str]:
    metadata = detail.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    return str(found.get("event_type")), str(found.get("schema_version"))


def _version_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _model_for(metadata: Mapping[str, object]) -> type[Event]:
    model = model_of(str(metadata.get("event_type")))
    if model is None or schema_name(metadata) == STUB:
        return UntypedEvent
    major = str(metadata.get("schema_version")).partition(".")[0]
    newer = major.isdigit() and int(major) > int(model.version.partition(".")[0])
    return UntypedEvent if newer else model
