"""Builds infra/event-schemas.yaml, the registry of the events in Amazon EventBridge Schemas, from the event schemas."""

from __future__ import annotations

import json
from typing import Any

import yaml

from faultbridge.model.events.json_schema import EVENT_MODELS, open_schema
from faultbridge.model.events.registry import STUB

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
"""The only JSON Schema version that the registry accepts."""

HEAD = """# Written by `make docs-reference`; do not edit. Deploy it beside the stack that owns the bus:
#   aws cloudformation deploy --template-file event-schemas.yaml --stack-name faultbridge-event-schemas \\
#     --s3-bucket BUCKET --parameter-overrides EventBusName=faultbridge
# The template is too large for CloudFormation without a bucket. It creates no role and grants nothing.
"""
_ENVELOPE = ("id", "source", "detail-type", "account", "region", "time")


def event_schemas_template() -> str:
    """Return the CloudFormation template of the registry as YAML; the same code always gives the same text."""
    document = {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Schemas of the Faultbridge events in the EventBridge schema registry",
        "Parameters": {
            "EventBusName": {
                "Type": "String",
                "Default": "faultbridge",
                "Description": "Output EventBusName of the stack; also the name of the registry",
            },
            "EventSource": {
                "Type": "String",
                "Default": "faultbridge",
                "Description": "Output EventSource of the stack",
            },
        },
        "Resources": {"Registry": _registry(), **{_logical(name): _schema(name) for name in EVENT_MODELS}},
        "Outputs": {
            "RegistryArn": {"Description": "ARN of the registry", "Value": {"Fn::GetAtt": "Registry.RegistryArn"}}
        },
    }
    return HEAD + yaml.safe_dump(document, sort_keys=False, width=110)


def _registry() -> dict[str, Any]:
    properties = {"RegistryName": {"Ref": "EventBusName"}, "Description": "Events of a Faultbridge stack"}
    return {"Type": "AWS::EventSchemas::Registry", "Properties": properties}


def _logical(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("-"))


def _schema(name: str) -> dict[str, Any]:
    properties = {
        "RegistryName": {"Fn::GetAtt": "Registry.RegistryName"},
        "SchemaName": {"Fn::Sub": f"${{EventSource}}@{_logical(name)}"},
        "Type": "JSONSchemaDraft4",
        "Content": json.dumps(draft_4_event(name), separators=(",", ":")),
    }
    return {"Type": "AWS::EventSchemas::Schema", "Properties": properties}


def draft_4_event(name: str) -> dict[str, Any]:
    """Return the schema of an event as the bus delivers it, in draft 4."""
    detail = open_schema(name)
    named = {"type": "string"} if name == STUB else {"enum": [detail["title"]]}
    lowered = _lowered(detail)
    return {
        "$schema": DRAFT_4,
        "title": detail["title"],
        "type": "object",
        "required": [*_ENVELOPE, "detail"],
        "definitions": lowered.pop("definitions"),
        "properties": {**{part: {"type": "string"} for part in _ENVELOPE}, "detail-type": named, "detail": lowered},
    }


def _lowered(schema: Any) -> Any:  # noqa: ANN401 - any part of a JSON schema
    """Return a part of a schema in draft 4, which has `definitions` and no `const`, without extensions."""
    if isinstance(schema, list):
        return [_lowered(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {}
    for name, part in schema.items():
        if name == "const":
            found["enum"] = [part]
        elif name == "$ref":
            found["$ref"] = part.replace("#/$defs/", "#/definitions/")
        elif not name.startswith(("$schema", "$id", "x-")):
            found["definitions" if name == "$defs" else name] = _lowered(part)
    return found
