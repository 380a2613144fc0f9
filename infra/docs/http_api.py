"""Generates the HTTP API reference from the OpenAPI description."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

from pydantic import Field, create_model

from faultbridge.model.names import CLUSTER_NAME
from faultbridge.repair.jobs.reports import JobReport
from infra.docs.api_models import model
from infra.docs.markdown import code, page, table
from infra.docs.openapi import openapi_document
from infra.docs.schema import type_of

FOLDER = "http-api/"
REFERENCE = re.compile(r"#/components/schemas/(\w+)")
NOTE = "[HTTP API](index.md) lists all operations, and explains `$API` and `$AUTH` in the examples."
INTRODUCTION = """\
The API reads clusters, nodes, cases and entries, accepts the orders of people, and records reports of jobs. Its URL is
the stack's output `ApiUrl`. IAM signs requests, or a JWT issuer does when the parameter `JwtIssuer` is set. The
machine-readable description is [openapi.json](../openapi.json) (OpenAPI 3.1).

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

An order has the same limits as its command, and its entry names the person: the ARN, or the subject of the token. A
refusal is a problem document whose `type` and `detail` name the reason. A caller that may repeat a request sends the
header `Idempotency-Key`: the order is executed once, however often it arrives.
"""

EXAMPLES = {
    "cluster": "train-a",
    "node": "gpu-1",
    "case": "c-abcdefghijklmnopqrstuvwxyz",
    "incident": "inc-abcdefghijklmnop",
    "finding": "f-abcdefghijklmnop",
    "silence": "sil-abcdefghijkl",
    "domain": "rack-7",
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


RESOURCES = {
    "clusters": ("Clusters and nodes", {"", "nodes"}),
    "orders": ("Pauses, silences and failure domains", {"domains", "pause", "resume", "silences"}),
    "cases": ("Cases", {"cases"}),
    "incidents": ("Incidents", {"incidents"}),
    "entries": ("Entries, streams and rejects", {"entries", "streams", "rejects"}),
    "findings": ("Findings and devices", {"findings", "devices", "offenders"}),
    "jobs": ("Jobs", {"jobs"}),
}
"""The title of each page, and the collections below a cluster that it has; the empty name is the cluster itself."""
SHARED = "shapes"


def pages() -> dict[str, Callable[[], str]]:
    """Return the function that generates each page, by file name: the overview, each resource, and shared shapes."""
    made: dict[str, Callable[[], str]] = {f"{FOLDER}index.md": overview}
    made |= {f"{FOLDER}{name}.md": partial(resource, name) for name in RESOURCES}
    return made | {f"{FOLDER}{SHARED}.md": shared_shapes}


def overview() -> str:
    """Return the page that lists all operations."""
    rows = [
        (
            _operation_link(name, operation["operationId"]),
            code(f"{method.upper()} {path}"),
            operation.get("summary", ""),
        )
        for name in RESOURCES
        for path, method, operation in _operations(name)
    ]
    return page(
        "HTTP API",
        INTRODUCTION,
        openapi_document()["info"]["description"],
        "## Operations",
        table(["operation", "request", "purpose"], rows),
    )


def resource(name: str) -> str:
    """Return the page of the operations on a resource, with the shapes that only they have."""
    operations = [section for path, method, one in _operations(name) for section in _operation(name, method, path, one)]
    shapes = [shape for shape, home in sorted(_homes().items()) if home == name]
    sections = [section for shape in shapes for section in _shape(name, shape)]
    return page(RESOURCES[name][0], NOTE, *operations, *sections)


def shared_shapes() -> str:
    """Return the page of the shapes that operations of several resources return."""
    shapes = [shape for shape, home in sorted(_homes().items()) if home == SHARED]
    sections = [section for shape in shapes for section in _shape(SHARED, shape)]
    note = "Operations on several resources return these shapes. [All operations](index.md)"
    return page("Shared shapes", note, *sections)


def _operation_link(page_name: str, operation: str) -> str:
    return f"[{operation}]({page_name}.md#{operation.lower()})"


def _operations(name: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path, the method and the description of each operation of a page."""
    for path, item in openapi_document()["paths"].items():
        parts = path.strip("/").split("/")
        if (parts[2] if len(parts) > 2 else "") in RESOURCES[name][1]:  # noqa: PLR2004 - clusters, its name, a collection
            yield from ((path, method, operation) for method, operation in item.items())


@cache
def _homes() -> dict[str, str]:
    """Return the page of each shape: that of the only resource that has it, else the page of shared shapes."""
    schemas: dict[str, Any] = openapi_document()["components"]["schemas"]
    users: dict[str, set[str]] = {name: set() for name in schemas}
    for name in RESOURCES:
        waiting = [shape for *_, operation in _operations(name) for shape in _named(operation)]
        while waiting:
            shape = waiting.pop()
            if name not in users[shape]:
                users[shape].add(name)
                waiting += _named(schemas[shape])
    return {shape: next(iter(names)) if len(names) == 1 else SHARED for shape, names in users.items()}


def _named(document: object) -> list[str]:
    """Return the names of the shapes that a part of the description refers to."""
    return REFERENCE.findall(json.dumps(document))


def job_report_schema() -> str:
    """Return the schema of the event in which a scheduler reports a job: the body of `reportJob`, and the cluster."""
    detail = create_model(
        "JobReportDetail",
        __base__=model(JobReport, is_body=True),
        __doc__="The detail of the bus event `Faultbridge Job Report`: a report, and the cluster of the job.",
        cluster=(str, Field(pattern=f"^{CLUSTER_NAME.pattern}$")),
    )
    schema = detail.model_json_schema()
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2) + "\n"


def _operation(name: str, method: str, path: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"## {operation['operationId']}"
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
        yield f"Request body: {_linked(name, body)}."
    answers = operation["responses"]
    shape = answers["200"].get("content", {}).get("application/json", {}).get("schema", {})
    yield f"Response 200: {_linked(name, shape)}."
    others = [(status, one.get("description", "")) for status, one in answers.items() if status != "200"]
    yield table(["status", "meaning"], others)


def _curl(path: str, operation: dict[str, Any]) -> str:
    """Return a request of an operation as a command."""
    names = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query" and one["name"] in EXAMPLES]
    return _get(path, "&".join(f"{name}={EXAMPLES[name]}" for name in names))


def _get(path: str, query: str) -> str:
    return f'curl $AUTH "$API{path.format_map(EXAMPLES)}{"?" if query else ""}{query}"'


def _linked(page_name: str, schema: dict[str, Any]) -> str:
    shape = schema.get("$ref", "").rpartition("/")[2]
    return _link(page_name, shape) if shape else type_of(schema)


def _link(page_name: str, shape: str) -> str:
    """Return a link to a shape; `page_name` is the page that has the link."""
    home = _homes()[shape]
    return f"[{shape}]({'' if home == page_name else f'{home}.md'}#{shape.lower()})"


def _shape(page_name: str, shape: str) -> Iterator[str]:
    schema: dict[str, Any] = openapi_document()["components"]["schemas"][shape]
    yield f"## {shape}"
    yield schema.get("description", "")
    required = set(schema.get("required", ()))
    link = partial(_link, page_name)
    rows = [
        (code(field), type_of(one, link), "yes" if field in required else "no", one.get("description", ""))
        for field, one in schema.get("properties", {}).items()
    ]
    yield table(["field", "type", "always present", ""], rows)
