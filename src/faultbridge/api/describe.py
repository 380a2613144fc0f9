"""The API described as OpenAPI 3.1, from its routes and shapes: built and committed, never served."""

from __future__ import annotations

import re
from typing import Any

from pydantic.json_schema import models_json_schema

from faultbridge.api.answers import CASE_ID, MAX_PAGE
from faultbridge.api.requests import MAX_CHARACTERS
from faultbridge.api.routes import ROUTES, Parameter, Route
from faultbridge.api.shapes import SHAPES
from faultbridge.domain.names import CLUSTER_NAME, NODE_NAME

REFERENCE = "#/components/schemas/{model}"
_NAMES = {
    "cluster": {"pattern": f"^{CLUSTER_NAME.pattern}$"},
    "node": {"pattern": f"^({NODE_NAME.pattern}|-)$", "description": "`-` is the cluster's own stream."},
    "case": {"pattern": f"^{CASE_ID.pattern}$"},
}
_KINDS: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "minLength": 1, "maxLength": MAX_CHARACTERS},
    "token": {"type": "string", "minLength": 1, "maxLength": 1024},
    "instant": {"type": "string", "format": "date-time"},
    "whole": {"type": "integer", "minimum": 0},
}
_PROBLEMS = {
    "400": "The request is not one that can be answered.",
    "401": "Nobody is named by the request.",
    "403": "The caller may not see this cluster.",
    "404": "There is no such thing.",
    "409": "It was answered already, or nobody asked.",
    "422": "It takes longer than a request may.",
    "503": "Try again later.",
}


def description() -> dict[str, Any]:
    """Describe the API; the same code gives the same document."""
    _, schemas = models_json_schema([(one, "validation") for one in SHAPES.values()], ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Faultbridge timeline",
            "version": "1",
            "description": "What happened to GPU nodes, when, and what was done about it. Pages follow the order of "
            "recording; sort a window by `occurred_at`, late entries are marked.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "iam": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "x-amazon-apigateway-authtype": "awsSigv4",
                },
                "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
            },
        },
        "security": [{"iam": []}, {"jwt": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    told = (getattr(route.answer, "__doc__", None) or "").strip().splitlines()[0]
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": told,
        "parameters": [*_path(route), *map(_query, route.parameters)],
        "responses": {
            "200": {"description": told, "content": {"application/json": {"schema": _shape(route.shape)}}},
            **{status: _problem(says) for status, says in _PROBLEMS.items()},
        },
    }
    if route.body is not None:
        content = {"application/json": {"schema": _shape(route.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _path(route: Route) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", route.path)
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", **_NAMES[name]}} for name in names
    ]


def _query(parameter: Parameter) -> dict[str, Any]:
    schema = dict(_KINDS[parameter.kind])
    if parameter.known:
        schema = {"type": "string", "enum": list(parameter.known)}
    if parameter.name == "limit":
        schema |= {"minimum": 1, "maximum": MAX_PAGE}
    if parameter.name == "epoch":
        schema |= {"minimum": 1, "maximum": 9999}
    if parameter.many:
        schema = {"type": "array", "items": schema}
    return {"name": parameter.name, "in": "query", "description": parameter.says, "schema": schema}


def _problem(says: str) -> dict[str, Any]:
    return {"description": says, "content": {"application/problem+json": {"schema": _shape("Problem")}}}


def _shape(name: str) -> dict[str, str]:
    return {"$ref": REFERENCE.format(model=name)}
