"""Builds the AsyncAPI 3.0 document of the bus, schemas/asyncapi.json, from the event schemas beside it."""

from __future__ import annotations

from typing import Any

from faultbridge.model.events.json_schema import EVENT_MODELS, open_schema
from faultbridge.model.events.registry import STUB

BUS = "bus"
_TEXT = {"type": "string"}


def asyncapi_document() -> dict[str, Any]:
    """Return the AsyncAPI document of the bus; the same code always gives the same document."""
    names = [name for name in EVENT_MODELS if name != STUB]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Faultbridge events",
            "version": "1",
            "description": "Events of the record on the EventBridge bus of a stack. The bus delivers at least once and "
            "in any order: `metadata.event_id` recognizes duplicates, and `metadata.stream`, `epoch` and `sequence` "
            "order events. An event that is too large for the bus arrives as a stub, whose `metadata.truncated` is "
            '`["*"]`.',
        },
        "defaultContentType": "application/json",
        "servers": {
            "eventbridge": {
                "host": "events.{region}.amazonaws.com",
                "protocol": "https",
                "variables": {"region": {"default": "us-east-1"}},
            }
        },
        "channels": {
            BUS: {
                "address": "faultbridge",
                "title": "The bus of a stack",
                "description": "Its name is the output `EventBusName` of the stack.",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in (*names, STUB)},
            }
        },
        "operations": {
            "publishEvents": {
                "action": "send",
                "channel": {"$ref": f"#/channels/{BUS}"},
                "messages": [{"$ref": f"#/channels/{BUS}/messages/{name}"} for name in (*names, STUB)],
            }
        },
        "components": {"messages": {name: _message(name) for name in (*names, STUB)}},
    }


def _message(name: str) -> dict[str, Any]:
    schema, major = open_schema(name), EVENT_MODELS[name].version.partition(".")[0]
    kind = {} if name == STUB else {"const": schema["title"]}
    return {
        "name": name,
        "title": schema["title"],
        "summary": schema["description"],
        "payload": {
            "type": "object",
            "required": ["source", "detail-type", "detail"],
            "properties": {
                "source": _TEXT | {"description": "Output `EventSource` of the stack."},
                "detail-type": _TEXT | kind,
                "detail": {"$ref": f"{name}/v{major}.json"},
            },
        },
    }
