"""Generates the HTTP API reference from the OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faultbridge.api.openapi import openapi_document
from infra.docs.markdown import code, page, table
from infra.docs.schema import type_of

INTRODUCTION = """\
The API reads clusters, nodes, cases and entries, and answers requests for approval. Its URL is the stack's output
`ApiUrl`. IAM signs requests, or a JWT issuer does when the parameter `JwtIssuer` is set. The machine-readable
description is [openapi.json](openapi.json) (OpenAPI 3.1)."""


def generate() -> str:
    """Return the reference page of all operations and shapes."""
    document = openapi_document()
    shapes = document["components"]["schemas"]
    operations = [
        section
        for path, item in document["paths"].items()
        for method, operation in item.items()
        for section in _operation(method, path, operation)
    ]
    return page(
        "HTTP API",
        INTRODUCTION,
        document["info"]["description"],
        "## Operations",
        *operations,
        "## Shapes",
        *(section for name in sorted(shapes) for section in _shape(name, shapes[name])),
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {operation['operationId']}"
    yield f"`{method.upper()} {path}`"
    yield operation.get("summary", "")
    rows = [
        (code(one["name"]), one["in"], type_of(one["schema"]), one.get("description", ""))
        for one in operation.get("parameters", ())
    ]
    yield table(["parameter", "in", "type", ""], rows)
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        yield f"Request body: {_linked(body)}."
    answers = operation["responses"]
    shape = answers["200"].get("content", {}).get("application/json", {}).get("schema", {})
    yield f"Response 200: {_linked(shape)}."
    others = [(status, one.get("description", "")) for status, one in answers.items() if status != "200"]
    yield table(["status", "meaning"], others)


def _linked(schema: dict[str, Any]) -> str:
    name = schema.get("$ref", "").rpartition("/")[2]
    return f"[{name}](#{name.lower()})" if name else type_of(schema)


def _shape(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}"
    yield schema.get("description", "")
    required = set(schema.get("required", ()))
    rows = [
        (code(field), type_of(one), "yes" if field in required else "no", one.get("description", ""))
        for field, one in schema.get("properties", {}).items()
    ]
    yield table(["field", "type", "always present", ""], rows)
