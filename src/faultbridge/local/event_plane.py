"""The event plane: MiniStack with our additions, on loopback (`python -m faultbridge.local.event_plane`).

A fake of CloudFormation, SQS, Lambda, DynamoDB, EventBridge, SNS, Step Functions, S3 and more. Routes of its own:
`GET /_faultbridge/identity`, `GET /_faultbridge/workers`, `POST /_faultbridge/warm` (`{"function": name}`).
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from faultbridge.local import gaps
from faultbridge.local.environment import ENDS_WITH_VARIABLE, FOLDER_VARIABLE, TOKEN_VARIABLE
from faultbridge.local.ports import LOOPBACK
from faultbridge.local.processes import end_with

PREFIX = "/_faultbridge/"

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


def main() -> None:
    """Serve until told to end."""
    end_with(os.environ.get(ENDS_WITH_VARIABLE))
    if os.environ.get("BIND_HOST") != LOOPBACK:
        raise SystemExit(f"the event plane listens on {LOOPBACK} only: BIND_HOST must say so")
    folder = Path(os.environ[FOLDER_VARIABLE])
    os.chdir(folder)

    # Imported here: the emulator reads its environment and starts threads when it is imported.
    from ministack import app as emulator

    gaps.apply_all(gaps.EVENT_PLANE)
    emulator.app = with_own_routes(emulator.app)
    emulator.main()


def with_own_routes(application: Application) -> Application:
    """Return the same application with our routes before it."""

    async def serve(scope: Message, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or not path.startswith(PREFIX):
            await application(scope, receive, send)
            return
        body = await _body(receive)
        status, answer = await asyncio.to_thread(_answer, scope["method"], path.removeprefix(PREFIX), body)
        await send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", b"application/json")],
            }
        )
        await send({"type": "http.response.body", "body": json.dumps(answer).encode()})

    return serve


async def _body(receive: Receive) -> dict[str, Any]:
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
        return HTTPStatus.NOT_FOUND, {
            "error": f"no route {route}",
            "routes": [f"{m} {r}" for m, r in _ROUTES],
        }
    return HTTPStatus.OK, action(body)


def _identity(_body: dict[str, Any]) -> object:
    return {"token": os.environ.get(TOKEN_VARIABLE, "")}


def _workers(_body: dict[str, Any]) -> object:
    """Return the processes that run functions now, so that a test can end one of them."""
    from ministack.core import lambda_runtime

    workers = list(lambda_runtime._workers.values())
    running = [worker for worker in workers if worker._proc is not None and worker._proc.poll() is None]
    return [{"function": worker.func_name, "pid": worker._proc.pid} for worker in running]


def _warm(body: dict[str, Any]) -> object:
    """Start a function's worker without calling its handler; `error` says why the module cannot be imported."""
    from ministack.core import lambda_runtime
    from ministack.services import lambda_svc

    for (_account, _region, name), function in list(lambda_svc._functions.all_items()):
        if name == body.get("function"):
            config = function["config"]
            worker = lambda_runtime.get_or_create_worker(name, config, function["code_zip"])
            with worker._lock:
                return {"error": lambda_svc._run_with_function_config_scope(config, _spawn, worker)}
    return {"error": f"no function {body.get('function')}"}


def _spawn(worker: Any) -> str:  # noqa: ANN401 - the emulator's class
    if worker._proc is not None and worker._proc.poll() is None:
        return ""
    try:
        worker._spawn()
    except (RuntimeError, OSError) as error:
        return str(error)
    worker._cold = False
    return ""


_ROUTES: dict[tuple[str, str], Callable[[dict[str, Any]], object]] = {
    ("GET", "identity"): _identity,
    ("GET", "workers"): _workers,
    ("POST", "warm"): _warm,
}

if __name__ == "__main__":
    main()
