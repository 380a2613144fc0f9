"""The compute plane: a moto server with our additions, on loopback (`python -m faultbridge.local.compute_plane`).

A fake of EC2, Auto Scaling, Systems Manager, EKS and SageMaker. Routes of its own: `GET /faultbridge/identity`,
`POST /faultbridge/ssm`, `/faultbridge/capacity`, `/faultbridge/weather`, `/faultbridge/cluster`, `/faultbridge/reset`;
`/faultbridge/kubernetes/<name>/...` is the Kubernetes API of an EKS cluster.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from faultbridge.local import gaps, kubernetes
from faultbridge.local.compute_script import ANY_ZONE, SCRIPT, CommandOutput
from faultbridge.local.environment import ENDS_WITH_VARIABLE, FOLDER_VARIABLE, PORT_VARIABLE, TOKEN_VARIABLE
from faultbridge.local.ports import LOOPBACK
from faultbridge.local.processes import end_with

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PREFIX = "/faultbridge/"


def main() -> None:
    """Serve until told to end."""
    end_with(os.environ.get(ENDS_WITH_VARIABLE))
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import run_simple

    os.chdir(os.environ[FOLDER_VARIABLE])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    gaps.apply_all(gaps.COMPUTE_PLANE)
    application = with_own_routes(DomainDispatcherApplication(create_backend_app))
    port = int(os.environ[PORT_VARIABLE])
    run_simple(LOOPBACK, port, application, threaded=True, request_handler=MotoRequestHandler)


def with_own_routes(application: WSGIApplication) -> WSGIApplication:
    """Return the same application with our routes before it."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        if path.startswith(kubernetes.PATH):
            return _kubernetes(path.removeprefix(kubernetes.PATH), environ, start_response)
        if not path.startswith(PREFIX):
            return application(environ, start_response)
        status, answer = _answer(path.removeprefix(PREFIX), environ)
        body = json.dumps(answer).encode()
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return serve


def _kubernetes(path: str, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    from faultbridge.local.kubernetes import api, clusters

    name, slash, rest = path.partition("/")
    return api.answer(lambda: clusters.cluster_of(name), slash + rest, environ, start_response)


def _answer(route: str, environ: WSGIEnvironment) -> tuple[str, object]:
    action = _ROUTES.get((str(environ["REQUEST_METHOD"]), route))
    if action is None:
        return "404 Not Found", {"error": f"no route {route}", "routes": [f"{m} {r}" for m, r in _ROUTES]}
    length = int(environ.get("CONTENT_LENGTH") or 0)
    try:
        body = json.loads(environ["wsgi.input"].read(length) or "{}")
        return "200 OK", action(body)
    except (KeyError, TypeError, ValueError) as error:
        return "400 Bad Request", {"error": f"{type(error).__name__}: {error}"}


def _identity(_body: dict[str, Any]) -> object:
    return {"token": os.environ.get(TOKEN_VARIABLE, "")}


def _script_command(body: dict[str, Any]) -> object:
    output = CommandOutput(exit_code=int(body["exit_code"]), stdout=str(body["stdout"]))
    SCRIPT.set_output(str(body["instance_id"]), output, body.get("until"))
    return {}


def _script_capacity(body: dict[str, Any]) -> object:
    available = bool(body["available"])
    SCRIPT.set_capacity(str(body["instance_type"]), str(body.get("zone", ANY_ZONE)), available=available)
    if available:
        from faultbridge.local.gaps import capacity

        capacity.refill()
    return {}


def _change_weather(body: dict[str, Any]) -> object:
    from faultbridge.local.compute_weather import WEATHER, Climate

    WEATHER.change(int(body["seed"]), Climate(**{name: float(share) for name, share in body["climate"].items()}))
    return {}


def _script_cluster(body: dict[str, Any]) -> object:
    from faultbridge.local.kubernetes import clusters

    clusters.script(body)
    return {}


def _reset(_body: dict[str, Any]) -> object:
    from faultbridge.local.compute_weather import WEATHER, Climate
    from faultbridge.local.kubernetes import clusters

    SCRIPT.reset()
    WEATHER.change(0, Climate())
    clusters.forget()
    return {}


_ROUTES: dict[tuple[str, str], Callable[[dict[str, Any]], object]] = {
    ("GET", "identity"): _identity,
    ("POST", "ssm"): _script_command,
    ("POST", "capacity"): _script_capacity,
    ("POST", "weather"): _change_weather,
    ("POST", "cluster"): _script_cluster,
    ("POST", "reset"): _reset,
}

if __name__ == "__main__":
    main()
