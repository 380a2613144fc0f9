"""The event plane: MiniStack with patches, on loopback.

Start it with `python -m faultbridge.local.servers.event_plane`. It emulates CloudFormation, SQS, Lambda, DynamoDB,
EventBridge, SNS, Step Functions, S3 and more. Faultbridge adds the routes `GET /_faultbridge/identity`, `GET
/_faultbridge/workers` and `POST /_faultbridge/warm` (`{"function": name}`). The paths of Faultbridge's HTTP API and
console are served at the address of the emulator, because the emulator's host names for APIs do not resolve everywhere.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from faultbridge.local.environment import FOLDER_VARIABLE, LOOPBACK, PARENT_VARIABLE, TOKEN_VARIABLE
from faultbridge.local.gaps import patching
from faultbridge.local.stack.files import terminate_with_parent

PREFIX = "/_faultbridge/"
API_PATHS = (["clusters"], ["console"], ["intake"])
"""The first parts of the paths that the deployed HTTP API serves."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def main() -> None:
    """Apply the patches to MiniStack, and serve requests until the process is terminated."""
    terminate_with_parent(os.environ.get(PARENT_VARIABLE))
    if os.environ.get("BIND_HOST") != LOOPBACK:
        raise SystemExit(f"BIND_HOST is not allowed: {os.environ.get('BIND_HOST')}; set it to {LOOPBACK}")
    os.chdir(Path(os.environ[FOLDER_VARIABLE]))

    # The emulator reads its environment and starts threads at import, so the import must come after the setup.
    from ministack import app as emulator

    patching.apply_all(patching.EVENT_PLANE)
    emulator.app = with_own_routes(emulator.app)
    emulator.main()


def with_own_routes(application: Application) -> Application:
    """Return an ASGI application with the `/_faultbridge/` routes and those of the deployed HTTP API."""

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        if scope["type"] == "http" and path.split("/")[1:2] in API_PATHS and (api := _api_id()):
            await application({**scope, "path": f"/_aws/execute-api/{api}/$default{path}"}, receive, send)
            return
        if scope["type"] != "http" or not path.startswith(PREFIX):
            await application(scope, receive, send)
            return
        body = await _read_body(receive)
        status, answer = await asyncio.to_thread(_answer, scope["method"], path.removeprefix(PREFIX), body)
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    return serve


async def _read_body(receive: Receive) -> dict[str, Any]:
    content = b""
    while True:
        message = await receive()
        content += message.get("body", b"")
        if not message.get("more_body"):
            break
    parsed = json.loads(content or b"{}")
    return parsed if isinstance(parsed, dict) else {}


def _answer(method: str, route: str, body: dict[str, Any]) -> tuple[int, object]:
    action = _ROUTES.get((method, route))
    if action is None:
        return HTTPStatus.NOT_FOUND, {"error": f"unknown route: {route}", "routes": [f"{m} {r}" for m, r in _ROUTES]}
    return HTTPStatus.OK, action(body)


def _api_id() -> str:
    from ministack.services import apigateway

    return next((api_id for (_account, _region, api_id), _ in apigateway._apis.all_items()), "")


def _workers(_body: dict[str, Any]) -> object:
    """Return the function name and process id of each running Lambda worker, so that a test can kill one."""
    from ministack.core import lambda_runtime

    workers = list(lambda_runtime._workers.values())
    running = [worker for worker in workers if worker._proc is not None and worker._proc.poll() is None]
    return [{"function": worker.func_name, "pid": worker._proc.pid} for worker in running]


def _warm(body: dict[str, Any]) -> object:
    """Start the worker of a function without a call; `error` of the response is empty or states why not."""
    from ministack.core import lambda_runtime
    from ministack.services import lambda_svc

    for (_account, _region, name), function in list(lambda_svc._functions.all_items()):
        if name == body.get("function"):
            config = function["config"]
            worker = lambda_runtime.get_or_create_worker(name, config, function["code_zip"])
            with worker._lock:
                return {"error": lambda_svc._run_with_function_config_scope(config, _start_worker, worker)}
    return {"error": f"unknown function: {body.get('function')}"}


def _start_worker(worker: Any) -> str:  # noqa: ANN401 - the emulator's class
    if worker._proc is not None and worker._proc.poll() is None:
        return ""
    try:
        worker._spawn()
    except (RuntimeError, OSError) as error:
        return str(error)
    worker._cold = False
    return ""


_ROUTES: dict[tuple[str, str], Callable[[dict[str, Any]], object]] = {
    ("GET", "identity"): lambda _: {"token": os.environ.get(TOKEN_VARIABLE, "")},
    ("GET", "workers"): _workers,
    ("POST", "warm"): _warm,
}

if __name__ == "__main__":
    main()
