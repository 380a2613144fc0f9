"""Recorded AWS calls of functions, read from HTTP requests."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from faultbridge.model.storage.codec import unpack_text
from faultbridge.model.storage.writes import Packed

_S3_OPERATIONS = {"GET": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
_EKS_PATH = re.compile(r"/clusters/(?P<name>[^/]+)(?P<groups>/node-groups(?:/(?P<nodegroupName>[^/]+))?)?")
_SIGNED_SERVICE = re.compile(r"Credential=[^/]+/\d{8}/[^/]+/(?P<service>[^/]+)/aws4_request")


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call of a function; `status` is the HTTP status of the emulator's answer.

    `started` and `ended` are the times of the forwarding, in seconds since 1970.
    """

    function: str
    service: str
    operation: str
    arguments: Mapping[str, Any]
    status: int = 0
    started: float = 0.0
    ended: float = 0.0

    @property
    def name(self) -> str:
        """The call as `service:Operation`."""
        return f"{self.service}:{self.operation}"

    @property
    def text(self) -> str:
        """The arguments as JSON, in which the values that the table stores packed are text."""
        return json.dumps(_unpacked(self.arguments))


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"B"}:
        return {"S": unpack_text(Packed(base64.b64decode(value["B"])))}
    return {name: _unpacked(one) for name, one in value.items()}


def read_call(function: str, method: str, path: str, headers: Any, body: bytes) -> Call:
    """Identify the service and operation of a request; the service is part of its signature."""
    signed = _SIGNED_SERVICE.search(headers["Authorization"])
    assert signed is not None, headers["Authorization"]
    service = signed["service"]
    if target := headers.get("X-Amz-Target"):
        return Call(function, service, target.rpartition(".")[2], json.loads(body or b"{}"))
    if "form-urlencoded" in headers.get("Content-Type", ""):
        arguments = dict(parse_qsl(body.decode()))
        return Call(function, service, arguments["Action"], arguments)
    split = urlsplit(path)
    operation, arguments = _REST[service](method, unquote(split.path), dict(parse_qsl(split.query, True)))
    return Call(function, service, operation, arguments)


def _s3(method: str, path: str, query: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    bucket, _, key = path.lstrip("/").partition("/")
    return _s3_operation(method, key, query), {"Bucket": bucket, "Key": key}


def _s3_operation(method: str, key: str, query: Mapping[str, str]) -> str:
    if key:
        return f"{_S3_OPERATIONS[method]}Version" if "versionId" in query else _S3_OPERATIONS[method]
    return "ListObjectVersions" if "versions" in query else "ListObjects"


def _eks(method: str, path: str, _query: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    found = _EKS_PATH.fullmatch(path)
    assert method == "GET", (method, path)
    assert found is not None, (method, path)
    names = {name: value for name, value in found.groupdict().items() if name != "groups" and value is not None}
    if "nodegroupName" in names:
        return "DescribeNodegroup", names
    return "ListNodegroups" if found["groups"] else "DescribeCluster", names


_REST = {"s3": _s3, "eks": _eks}
