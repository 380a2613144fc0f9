"""An HTTP API in memory: gateway events, handled by the real entry point over fakes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

from faultbridge.serve.entrypoints.timeline import timeline
from tests.world import World

ADMIN = ("*",)


@dataclass(frozen=True)
class Response:
    """A response."""

    status: int
    media_type: str
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


class Gateway:
    """Serves a World with events of an HTTP API, payload version 2.0."""

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World(nodes=("n-1", "n-2"))

    def get(self, path: str, clusters: Iterable[str] | None = ADMIN, **query: Any) -> Response:
        """GET a path with a token for some clusters, or with None as an IAM caller."""
        return self.send("GET", path, urlencode(query, doseq=True), clusters=clusters)

    def post(
        self,
        path: str,
        body: Any,
        operated: Iterable[str] = ADMIN,
        clusters: Iterable[str] | None = (),
        key: str | None = None,
        person: str = "an-operator",
    ) -> Response:
        """POST to a path with an operator's token for some clusters, or as an IAM caller if `clusters` is None."""
        text = body if isinstance(body, str) else json.dumps(body)
        return self.send("POST", path, body=text.encode(), clusters=clusters, operated=operated, key=key, person=person)

    def send(
        self,
        method: str,
        path: str,
        query: str = "",
        body: bytes = b"",
        clusters: Iterable[str] | None = ADMIN,
        operated: Iterable[str] | None = None,
        key: str | None = None,
        person: str = "an-operator",
    ) -> Response:
        """Send a request; a GET has no operator's claim unless given, any other request has one for all clusters."""
        if operated is None:
            operated = () if method == "GET" else ADMIN
        request = event(method, path, query, body, clusters, operated, person)
        request["headers"] |= {"idempotency-key": key} if key is not None else {}
        answer = timeline(request, None, self.world.app)
        headers = {**answer.get("headers", {}), **answer.get("multiValueHeaders", {})}
        return Response(answer["statusCode"], str(headers["Content-Type"]), answer["body"])

    def wsgi(self, environ: Mapping[str, Any], start_response: Any) -> list[bytes]:
        """Serve as a WSGI application."""
        size = int(environ.get("CONTENT_LENGTH") or 0)
        path = environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace")
        body = environ["wsgi.input"].read(size)
        response = self.send(environ["REQUEST_METHOD"], path, environ.get("QUERY_STRING", ""), body)
        start_response(f"{response.status} x", [("Content-Type", response.media_type)])
        return [response.text.encode()]


def event(
    method: str,
    path: str,
    query: str,
    body: bytes,
    clusters: Iterable[str] | None,
    operated: Iterable[str] = (),
    person: str = "an-operator",
) -> dict[str, Any]:
    """Return an event of an HTTP API, with both claims as a list, or without any if `clusters` is None (IAM).

    The gateway renders a list claim as the text `[a b]`.
    """
    lists = {"faultbridge_clusters": clusters or (), "faultbridge_operator_clusters": operated}
    claims = {"sub": person} | {claim: f"[{' '.join(names)}]" for claim, names in lists.items()}
    authorizer = {"jwt": {"claims": claims}} if clusters is not None else {"iam": {"userArn": "arn:aws:iam::1:user/a"}}
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": unquote(urlsplit(path).path) if "%" in path else path,
        "rawQueryString": query,
        "headers": {"content-type": "application/json"},
        "requestContext": {
            "http": {"method": method, "path": path},
            "stage": "$default",
            "authorizer": authorizer,
        },
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
    }
