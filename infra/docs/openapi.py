"""Builds the OpenAPI 3.1 document of the API, docs/reference/openapi.json, from its routes and models."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from msgspec import Struct
from pydantic.json_schema import models_json_schema

from faultbridge.model.names import CLUSTER_NAME, NODE_NAME
from faultbridge.serve.api.problems import Problem
from faultbridge.serve.api.requests import (
    ALL_CLUSTERS,
    IDEMPOTENCY_KEY,
    MAX_LENGTH,
    MAX_LIMIT,
    OPERATOR_CLAIM,
    READER_CLAIM,
)
from faultbridge.serve.api.routes import FINDING_ID, ROUTES, Parameter, Route
from faultbridge.serve.orders import CASE_ID, INCIDENT_ID, ORDERS, SILENCE_ID
from infra.docs.api_models import model, models

REFERENCE = "#/components/schemas/{model}"
_PATH_SCHEMAS: dict[str, dict[str, Any]] = {
    "cluster": {"pattern": f"^{CLUSTER_NAME.pattern}$"},
    "node": {"pattern": f"^({NODE_NAME.pattern}|-)$", "description": "`-` selects the stream of the cluster itself."},
    "case": {"pattern": f"^{CASE_ID.pattern}$"},
    "incident": {"pattern": f"^{INCIDENT_ID.pattern}$"},
    "finding": {"pattern": f"^{FINDING_ID.pattern}$"},
    "silence": {"pattern": f"^{SILENCE_ID.pattern}$"},
    "domain": {"minLength": 1, "maxLength": MAX_LENGTH, "description": "Name of a failure domain, such as a rack."},
    "job": {"minLength": 1, "maxLength": MAX_LENGTH, "description": "The id of the job, if it has no `/` and no `%`."},
    "device": {"minLength": 1, "maxLength": MAX_LENGTH, "description": "Serial number or UUID."},
}
_SCHEMA_BY_KIND: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH},
    "token": {"type": "string", "minLength": 1, "maxLength": 1024},
    "instant": {"type": "string", "format": "date-time"},
    "integer": {"type": "integer", "minimum": 0},
}
_TOKEN_CLAIMS = (
    f"The claim `{READER_CLAIM}` names the clusters that the caller may read. The claim `{OPERATOR_CLAIM}` names the "
    "clusters that the caller may read and operate: every method except GET and HEAD requires it. Both are a list of "
    f"names or names separated by spaces; `{ALL_CLUSTERS}` means all clusters."
)
_PROBLEM_DESCRIPTIONS = {
    "400": "The request is invalid.",
    "401": "The request has no valid credentials.",
    "403": "The caller may not read this cluster or, in a request that changes something, may not operate it.",
    "404": "Not found.",
    "409": "What the order is about has changed or does not permit it: the approval request was answered, another "
    "instance backs the node, the repair passed its intent, others paused the cluster, the job runs already. `type` "
    "and `detail` name the reason; nothing was changed.",
    "422": "The stream is too long for one request, or the key was used for another order.",
    "503": "Try again later.",
}


_ORDERS = frozenset(kind.operation for kind in ORDERS.values())
_KEY: dict[str, Any] = {
    "name": IDEMPOTENCY_KEY,
    "in": "header",
    "description": "A key of the caller for this order. A repetition with the same key and the same body changes "
    "nothing, for at least seven days; with another body, it is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH},
}


@cache
def openapi_document() -> dict[str, Any]:
    """Return the OpenAPI document of the API, the same for the same code; callers do not change it."""
    _, schemas = models_json_schema([(one, "validation") for one in models().values()], ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Faultbridge timeline",
            "version": "1",
            "description": "Faults of GPU nodes and what was done about them. Pages follow the order of recording; "
            "late entries are marked. Sort by `occurred_at` for the order of events.",
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
                "jwt": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": _TOKEN_CLAIMS},
            },
        },
        "security": [{"iam": []}, {"jwt": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    summary = (getattr(route.handler, "__doc__", None) or "").strip().splitlines()[0]
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": summary,
        "parameters": [*_path(route), *map(_query, route.parameters), *([_KEY] if route.name in _ORDERS else [])],
        "responses": {
            "200": {
                "description": summary,
                "content": {"application/json": {"schema": _model(route.response)}},
            },
            **{status: _problem(text) for status, text in _PROBLEM_DESCRIPTIONS.items()},
        },
    }
    if route.body is not None:
        content = {"application/json": {"schema": _model(route.body)}}
        required = any(field.is_required() for field in model(route.body, is_body=True).model_fields.values())
        operation["requestBody"] = {"required": required, "content": content}
    return operation


def _path(route: Route) -> list[dict[str, Any]]:
    names = re.findall(r"{(\w+)}", route.path)
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", **_PATH_SCHEMAS[name]}}
        for name in names
    ]


def _query(parameter: Parameter) -> dict[str, Any]:
    schema = dict(_SCHEMA_BY_KIND[parameter.kind])
    if parameter.allowed:
        schema = {"type": "string", "enum": list(parameter.allowed)}
    if parameter.name == "limit":
        schema |= {"minimum": 1, "maximum": MAX_LIMIT}
    if parameter.name == "epoch":
        schema |= {"minimum": 1, "maximum": 9999}
    if parameter.repeatable:
        schema = {"type": "array", "items": schema}
    return {"name": parameter.name, "in": "query", "description": parameter.description, "schema": schema}


def _problem(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/problem+json": {"schema": _model(Problem)}}}


def _model(kind: type[Struct]) -> dict[str, str]:
    return {"$ref": REFERENCE.format(model=model(kind).__name__)}
