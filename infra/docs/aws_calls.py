"""Generates the page of every AWS call of the adapters, from their code and the models of the SDK."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import botocore.session
from botocore.model import OperationModel, ServiceModel

from faultbridge.adapters.aws.clients import SERVICES
from infra.docs.markdown import code, page, table

ADAPTERS = Path(__file__).resolve().parents[2] / "src" / "faultbridge" / "adapters"
READS = ("batch_get", "describe", "filter", "get", "head", "list", "query", "receive", "scan")
INTRODUCTION = """\
Every call of AWS that the adapters make. *Sent* is how often the client sends a call whose response is lost: `once` for
calls that must not be repeated, else up to four times. *Pages* is `all` if the code reads all pages, `first` if the
operation has pages and the code reads only the first one, and empty if it has none. *Token* is the member that makes a
repeated request have no second effect. *Errors* are those that the model of the service lists; EC2 and Auto Scaling
list none or few, and `adapters/ec2/instances.py` has their codes. `tests/architecture/test_aws_calls.py` says why a
call reads only its first page, and why a call that changes something may be repeated."""


class AwsCall(NamedTuple):
    """One operation of a service, as a file of the adapters calls it: with which client, and whether with all pages."""

    client: str
    method: str
    paginated: bool
    file: str

    @property
    def service(self) -> str:
        """Return the service's name in the SDK."""
        return SERVICES[self.client][0]

    @property
    def operation(self) -> OperationModel:
        """Return the operation in the model of the SDK."""
        names = {botocore.xform_name(name): name for name in _model(self.service).operation_names}
        return _model(self.service).operation_model(names[self.method])

    @property
    def can_paginate(self) -> bool:
        """Return whether the SDK has a paginator of the operation."""
        paginators = _session().get_data(f"{self.service}/{_model(self.service).api_version}/paginators-1")
        return self.operation.name in paginators["pagination"]

    @property
    def tokens(self) -> list[str]:
        """Return the members of the request by which the service recognizes a repeated call."""
        shape = self.operation.input_shape
        named = {"ClientToken", "ClientRequestToken"} & set(shape.members if shape else ())
        return sorted(named)

    @property
    def reads(self) -> bool:
        """Return whether the call changes nothing."""
        return self.method.startswith(READS)


@cache
def _session() -> botocore.session.Session:
    return botocore.session.get_session()


@cache
def _model(service: str) -> ServiceModel:
    return _session().get_service_model(service)


def calls() -> list[AwsCall]:
    """Return the calls of all adapters, one for each operation, client and file."""
    found = {call for path in ADAPTERS.rglob("*.py") for call in _calls_in(path)}
    return sorted(found, key=lambda one: (one.service, one.method, one))


def _calls_in(path: Path) -> Iterator[AwsCall]:
    file = path.relative_to(ADAPTERS.parent).as_posix()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield from _named_call(node, file)
        elif isinstance(node, ast.Attribute) and (client := _client_of(node.value)) and node.attr in _methods(client):
            yield AwsCall(client, node.attr, False, file)


def _named_call(node: ast.Call, file: str) -> Iterator[AwsCall]:
    """Yield the operation that a call names by a text: of a paginator, or of a method that older SDKs lack."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=owner, attr="get_paginator"), args=[ast.Constant(value=str(method)), *_]
        ):
            is_paginated = True
        case ast.Call(func=ast.Name(id="newest_operation"), args=[owner, ast.Constant(value=str(method))]):
            is_paginated = False
        case _:
            return
    if client := _client_of(owner):
        yield AwsCall(client, method, is_paginated, file)


def _client_of(node: ast.expr) -> str | None:
    """Return the client of an expression such as `clients.ec2`, `self._clients.ec2`, `self._s3` or `ssm`, or None."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name.lstrip("_") if name.lstrip("_") in SERVICES else None


@cache
def _methods(client: str) -> frozenset[str]:
    return frozenset(map(botocore.xform_name, _model(SERVICES[client][0]).operation_names))


def generate() -> str:
    """Return the page of all calls."""
    rows = [
        (
            f"{one.service} {code(one.operation.name)}",
            "once" if SERVICES[one.client][2] == 1 else "",
            "all" if one.paginated else "first" if one.can_paginate else "",
            " ".join(map(code, one.tokens)),
            " ".join(code(shape.name) for shape in one.operation.error_shapes),
            code(one.file),
        )
        for one in calls()
    ]
    return page("AWS calls", INTRODUCTION, table(["call", "sent", "pages", "token", "errors", "file"], rows))
