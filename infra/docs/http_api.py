"""Generates the HTTP API reference from the OpenAPI description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from faultbridge.serve.api.response_models import JobReportDetail
from infra.docs.markdown import code, page, table
from infra.docs.openapi import openapi_document
from infra.docs.schema import type_of

INTRODUCTION = """\
The API reads clusters, nodes, cases and entries, answers requests for approval, and records reports of jobs. Its URL is
the stack's output `ApiUrl`. IAM signs requests, or a JWT issuer does when the parameter `JwtIssuer` is set. The
machine-readable description is [openapi.json](openapi.json) (OpenAPI 3.1).

Each read, and the report of a job, has an example for curl. `$API` is the address. The embedded stack needs no
credentials, and `$AUTH` is empty:

    API=http://127.0.0.1:4566

On AWS, sign with `--aws-sigv4`, or send a token:

    API=https://abcde12345.execute-api.us-east-1.amazonaws.com
    AUTH="--aws-sigv4 aws:amz:us-east-1:execute-api --user $AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"
    AUTH="--oauth2-bearer $TOKEN"

The claim `faultbridge_clusters` of a token names the clusters that its owner may read, and the claim
`faultbridge_operator_clusters` those that its owner may read and operate. A request with another method than GET or
HEAD requires the second claim; without it, the status is 403.
"""

EXAMPLES = {
    "cluster": "train-a",
    "node": "gpu-1",
    "case": "c-abcdefghijklmnopqrstuvwxyz",
    "incident": "inc-abcdefghijklmnop",
    "finding": "f-abcdefghijklmnop",
    "job": "88213",
    "device": "1653922001234",
    "status": "queued",
    "since": "2026-02-03T00:00:00Z",
    "limit": "20",
    "closed": "true",
    "ended": "true",
    "after": "0",
}
"""Values of parameters in examples; a query parameter without a value here is left out."""


QUERIES = {"listJobs": ("id=ml%2Fllm",)}
"""Further examples of reads: their query, by operation."""

BODIES = {
    "reportJob": (
        '{"change": "start", "job_id": "88213", "nodes": ["gpu-[1-2]"], "ranks_per_node": 8}',
        '{"change": "heartbeat", "job_id": "88213", "step": 1200, "loss": 2.31}',
        '{"change": "end", "job_id": "88213", "outcome": "failed", "reason": "exit code 1"}',
    ),
}
"""Bodies in examples, in their order, by operation."""


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


def job_report_schema() -> str:
    """Return the schema of the event in which a scheduler reports a job: the body of `reportJob`, and the cluster."""
    schema = JobReportDetail.model_json_schema()
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def _operation(method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### {operation['operationId']}"
    yield f"`{method.upper()} {path}`"
    yield operation.get("summary", "")
    if method == "get":
        further = (_get(path, query) for query in QUERIES.get(operation["operationId"], ()))
        yield "\n".join(f"    {one}" for one in (_curl(path, operation), *further))
    if bodies := BODIES.get(operation["operationId"], ()):
        yield "\n".join(f"    {_curl(path, operation)} -d '{body}'" for body in bodies)
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


def _curl(path: str, operation: dict[str, Any]) -> str:
    """Return a request of an operation as a command."""
    names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query" and one["name"] in EXAMPLES]
    return _get(path, "&".join(f"{name}={EXAMPLES[name]}" for name in names))


def _get(path: str, query: str) -> str:
    return f'curl $AUTH "$API{path.format_map(EXAMPLES)}{"?" if query else ""}{query}"'


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
