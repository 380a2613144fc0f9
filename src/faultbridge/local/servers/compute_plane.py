"""The compute plane: a moto server with patches, on loopback.

Start it with `python -m faultbridge.local.servers.compute_plane`. It emulates EC2, Auto Scaling, Systems Manager, EKS
and SageMaker. Faultbridge adds these routes, which all start with `/faultbridge/`:

- `GET identity`: the token of the stack to which this process belongs.
- `POST command-output`, `capacity`, `capacity-reservations`, `launch-faults`: set injected faults and capacity.
- `POST heal`: remove the injected command output of one instance.
- `POST kubernetes-cluster`, `hyperpod-cluster`: change the settings of one fake cluster.
- `POST reset`: remove all these settings.
- `kubernetes/<name>/...`: the Kubernetes API of an EKS cluster.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from faultbridge.local import kubernetes
from faultbridge.local.environment import FOLDER_VARIABLE, LOOPBACK, PARENT_VARIABLE, PORT_VARIABLE, TOKEN_VARIABLE
from faultbridge.local.gaps import patching
from faultbridge.local.servers.fault_injection import ANY_ZONE, FAULTS, LAUNCH_FAULTS, CommandOutput, LaunchFaultRates
from faultbridge.local.stack.files import terminate_with_parent

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PREFIX = "/faultbridge/"


def main() -> None:
    """Apply the patches to moto, and serve requests until the process is terminated."""
    terminate_with_parent(os.environ.get(PARENT_VARIABLE))
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import run_simple

    os.chdir(os.environ[FOLDER_VARIABLE])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    patching.apply_all(patching.COMPUTE_PLANE)
    application = with_own_routes(DomainDispatcherApplication(create_backend_app))
    port = int(os.environ[PORT_VARIABLE])
    run_simple(LOOPBACK, port, application, threaded=True, request_handler=MotoRequestHandler)


def with_own_routes(application: WSGIApplication) -> WSGIApplication:
    """Return a WSGI application that answers the `/faultbridge/` routes and forwards all other requests."""

    def serve(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = str(environ.get("PATH_INFO", ""))
        if path.startswith(kubernetes.PATH):
            return _answer_kubernetes(path.removeprefix(kubernetes.PATH), environ, start_response)
        if not path.startswith(PREFIX):
            return application(environ, start_response)
        status, answer = _answer(path.removeprefix(PREFIX), environ)
        body = json.dumps(answer).encode()
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return serve


def _answer_kubernetes(path: str, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    from faultbridge.local.gaps import eks_endpoints
    from faultbridge.local.kubernetes import api

    name, slash, rest = path.partition("/")
    return api.answer(lambda: eks_endpoints.find(name), slash + rest, environ, start_response)


def _answer(route: str, environ: WSGIEnvironment) -> tuple[str, object]:
    action = _ROUTES.get((str(environ["REQUEST_METHOD"]), route))
    if action is None:
        return "404 Not Found", {"error": f"unknown route: {route}", "routes": [f"{m} {r}" for m, r in _ROUTES]}
    length = int(environ.get("CONTENT_LENGTH") or 0)
    try:
        body = json.loads(environ["wsgi.input"].read(length) or "{}")
        return "200 OK", action(body) or {}
    except (KeyError, TypeError, ValueError) as error:
        return "400 Bad Request", {"error": f"{type(error).__name__}: {error}"}


def _set_command_output(body: dict[str, Any]) -> None:
    output = CommandOutput(exit_code=int(body["exit_code"]), stdout=str(body["stdout"]))
    FAULTS.set_output(str(body["instance_id"]), output, body.get("until"))


def _set_capacity(body: dict[str, Any]) -> None:
    available = bool(body["available"])
    FAULTS.set_capacity(str(body["instance_type"]), str(body.get("zone", ANY_ZONE)), available=available)
    if available:
        from faultbridge.local.gaps import ec2

        ec2.retry_scaling_groups()


def _set_reservations(body: dict[str, Any]) -> None:
    from faultbridge.local.gaps.ec2 import RESERVATIONS

    RESERVATIONS[:] = [dict(one) for one in body["reservations"]]


def _set_launch_faults(body: dict[str, Any]) -> None:
    LAUNCH_FAULTS.set_rates(
        int(body["seed"]), LaunchFaultRates(**{name: float(rate) for name, rate in body["rates"].items()})
    )


def _configure_kubernetes(body: dict[str, Any]) -> None:
    from faultbridge.local.gaps import eks_endpoints

    eks_endpoints.configure(body)


def _configure_hyperpod(body: dict[str, Any]) -> None:
    from faultbridge.local.gaps.hyperpod_clusters import SAGEMAKER

    cluster = SAGEMAKER.clusters[str(body["cluster"])]
    cluster.faulty.update(body.get("faulty", ()))
    cluster.capacity = bool(body.get("capacity", cluster.capacity))
    cluster.node_recovery = str(body.get("node_recovery", cluster.node_recovery))


def _reset(_body: dict[str, Any]) -> None:
    from faultbridge.local.gaps import eks_endpoints
    from faultbridge.local.gaps.hyperpod_clusters import SAGEMAKER

    FAULTS.reset()
    _set_reservations({"reservations": []})
    LAUNCH_FAULTS.set_rates(0, LaunchFaultRates())
    eks_endpoints.reset()
    for cluster in tuple(SAGEMAKER.clusters.values()):
        cluster.reset()


_ROUTES: dict[tuple[str, str], Callable[[dict[str, Any]], object]] = {
    ("GET", "identity"): lambda _: {"token": os.environ.get(TOKEN_VARIABLE, "")},
    ("POST", "command-output"): _set_command_output,
    ("POST", "heal"): lambda body: FAULTS.heal(str(body["instance_id"])),
    ("POST", "capacity"): _set_capacity,
    ("POST", "capacity-reservations"): _set_reservations,
    ("POST", "launch-faults"): _set_launch_faults,
    ("POST", "kubernetes-cluster"): _configure_kubernetes,
    ("POST", "hyperpod-cluster"): _configure_hyperpod,
    ("POST", "reset"): _reset,
}

if __name__ == "__main__":
    main()
