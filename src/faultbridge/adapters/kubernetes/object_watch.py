"""List and watch nodes, events about nodes, and pods, through the Kubernetes API.

lightkube's own watch has no read timeout, so it would wait forever on a connection that broke without notice. This
module therefore uses only lightkube's HTTP client.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import httpx2
from lightkube.config.client_adapter import Client as HttpClient
from lightkube.config.client_adapter import ConnectionParams

from faultbridge.adapters.aws.clients import CONNECT_SECONDS, READ_SECONDS
from faultbridge.adapters.kubernetes.client import ApiAccess, error_of_status, single_config
from faultbridge.model.errors import Transient
from faultbridge.record.ports.object_watch import ObjectChange, ObjectKind, ObjectPage, VersionExpired

PAGE = 100
"""Objects per call of a list; a node with its images has about 20 KB."""

WATCH_SECONDS = 240
"""The API ends a watch after this time."""

MAX_IDLE_SECONDS = WATCH_SECONDS + 30.0
"""A watch without any data for this time has lost its connection, because the API would have ended it."""

_PATHS: Mapping[ObjectKind, tuple[str, Mapping[str, str]]] = {
    ObjectKind.NODE: ("/api/v1/nodes", {}),
    ObjectKind.POD: ("/api/v1/pods", {}),
    # Events about objects without a namespace, such as nodes, are in the namespace `default`.
    ObjectKind.NODE_EVENT: ("/api/v1/namespaces/default/events", {"fieldSelector": "involvedObject.kind=Node"}),
}


class KubernetesWatch:
    """Lists and watches the objects of one cluster; `access` returns the endpoint and a valid token."""

    def __init__(self, access: Callable[[], ApiAccess]) -> None:
        self._access = access

    def pages(self, kind: ObjectKind) -> Iterator[ObjectPage]:
        """Yield all objects of a kind, in pages of 100; raises VersionExpired if too much changed meanwhile."""
        path, selector = _PATHS[kind]
        action, following = f"listing each {kind}", ""
        with self._http(READ_SECONDS) as http:
            while True:
                params = {**selector, "limit": str(PAGE), **({"continue": following} if following else {})}
                with _translated(action):
                    page = _document(http.get(path, params=params), action)
                metadata = page.get("metadata") or {}
                yield ObjectPage(page.get("items") or (), str(metadata.get("resourceVersion") or ""))
                following = str(metadata.get("continue") or "")
                if not following:
                    return

    def changes(self, kind: ObjectKind, version: str) -> Iterator[ObjectChange]:
        """Yield the changes of the objects of a kind, until the API ends the watch after about four minutes.

        `version` is the resource version after which the changes start. A change without an object (a bookmark)
        contains only a resource version. Raises VersionExpired if the API no longer has all changes after `version`.
        """
        path, selector = _PATHS[kind]
        action = f"watching each {kind}"
        params = {
            **selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        with (
            self._http(MAX_IDLE_SECONDS) as http,
            _translated(action),
            http.stream("GET", path, params=params) as response,
        ):
            if response.is_error:
                response.read()
                _document(response, action)
            for line in filter(None, response.iter_lines()):
                yield _change(json.loads(line), action)

    def _http(self, read_seconds: float) -> httpx2.Client:
        timeout = httpx2.Timeout(read_seconds, connect=CONNECT_SECONDS)
        return HttpClient(single_config(self._access()), ConnectionParams(timeout=timeout, trust_env=False))


@contextmanager
def _translated(action: str) -> Iterator[None]:
    try:
        yield
    except (httpx2.HTTPError, ValueError, AttributeError) as error:
        raise Transient(f"Kubernetes, {action}: no complete response: {type(error).__name__} {error}") from error


def _document(response: httpx2.Response, action: str) -> dict[str, Any]:
    is_json = not response.is_error or "json" in response.headers.get("content-type", "")
    document: dict[str, Any] = response.json() if is_json else {}
    if response.is_error:
        raise _error(response.status_code, document, action)
    return document


def _change(event: dict[str, Any], action: str) -> ObjectChange:
    kind, found = event.get("type"), event.get("object") or {}
    if kind == "ERROR":
        raise _error(int(found.get("code") or 0), found, action)
    version = str((found.get("metadata") or {}).get("resourceVersion") or "")
    if not version:
        raise Transient(f"Kubernetes, {action}: a change without a resource version")
    return ObjectChange(version, None if kind == "BOOKMARK" else found, deleted=kind == "DELETED")


def _error(status: int, document: Mapping[str, Any], action: str) -> Exception:
    text = str(document.get("message") or f"HTTP {status}")
    if status == HTTPStatus.GONE:
        return VersionExpired(f"Kubernetes, {action}: {text}")
    return error_of_status(action, status, text)
