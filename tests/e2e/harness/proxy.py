"""A recording proxy between the functions and the two emulators; it can inject faults into calls.

It forwards all other calls unchanged. `AWS_ENDPOINT_URL` of each function has its own path on this proxy, which
identifies the caller.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from faultbridge.model.values import replace
from tests.e2e.harness.calls import Call, read_call
from tests.waiting import BUSY_FACTOR

EVENT, COMPUTE = "event", "compute"
_COMPUTE_SERVICES = ("EC2", "AUTO_SCALING", "SSM", "SAGEMAKER", "EKS")
_NOT_FORWARDED = frozenset({"host", "connection", "content-length", "transfer-encoding", "expect", "keep-alive"})


@dataclass(slots=True)
class CallFault:
    """A fault that the proxy injects into calls of one name by one function.

    `action` runs after the emulator answers and before the function gets the answer. With `forward=False` it runs
    instead of the call. `error_code` answers the call with this error instead of forwarding it. The fault applies only
    to calls that contain the text `containing`; it skips the first `skip` of them and occurs `times` times.
    """

    function: str
    call: str
    action: Callable[[], object] | None = None
    forward: bool = True
    error_code: str | None = None
    containing: str = ""
    skip: int = 0
    times: int = 1
    occurred: int = 0


@dataclass(slots=True)
class RecordingProxy:
    """A proxy on 127.0.0.1 that records calls and injects faults.

    `targets` are the emulators (`host:port`) by plane; set them before any call. Stop the emulators before the proxy:
    its end closes all open connections.
    """

    targets: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    _faults: list[CallFault] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: _Server | None = None

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"proxy": self}))
        threading.Thread(target=self._server.serve_forever, daemon=True, name="proxy").start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.close_connections()
            self._server.server_close()

    def environment(self, function: str) -> dict[str, str]:
        """Return the variables with which a function calls through this proxy."""
        assert self._server is not None
        base = f"http://127.0.0.1:{self._server.server_port}/{function}"
        compute = {f"AWS_ENDPOINT_URL_{service}": f"{base}/{COMPUTE}" for service in _COMPUTE_SERVICES}
        return {"AWS_ENDPOINT_URL": f"{base}/{EVENT}", **compute}

    @contextmanager
    def inject(self, *faults: CallFault) -> Iterator[None]:
        """Inject faults within the block; the first matching fault applies to a call."""
        with self._lock:
            self._faults.extend(faults)
        try:
            yield
        finally:
            with self._lock:
                self._faults = [fault for fault in self._faults if fault not in faults]

    def fault_for(self, call: Call) -> CallFault | None:
        """Return the fault that applies to this call, if any, and count it."""
        with self._lock:
            for fault in self._faults:
                if (fault.function, fault.call) != (call.function, call.name):
                    continue
                if fault.containing and fault.containing not in call.text:
                    continue
                if fault.skip:
                    fault.skip -= 1
                elif fault.occurred < fault.times:
                    fault.occurred += 1
                    return fault
        return None

    def count(self, function: str, name: str) -> int:
        """Return how often a function made a call so far."""
        return sum(call.function == function and call.name == name for call in list(self.calls))


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.open: set[socket.socket] = set()

    def close_connections(self) -> None:
        for connection in list(self.open):
            with suppress(OSError):  # the client closed it first
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore closed connections: killed workers close them during a call. Other errors are printed."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    proxy: RecordingProxy
    protocol_version = "HTTP/1.1"
    # Send small packets immediately: waiting for an acknowledgement takes 40 ms.
    disable_nagle_algorithm = True
    wbufsize = -1

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)
        self.upstream: dict[str, http.client.HTTPConnection] = {}

    def finish(self) -> None:
        for connection in self.upstream.values():
            connection.close()
        self.server.open.discard(self.connection)
        super().finish()

    def handle_expect_100(self) -> bool:
        super().handle_expect_100()
        self.wfile.flush()  # otherwise the caller waits for a second
        return True

    def _relay(self) -> None:
        _, function, plane, *rest = self.path.split("/", 3)
        path = "".join(rest)
        body = self._body()
        call = read_call(function, self.command, f"/{path}", self.headers, body)
        fault = self.proxy.fault_for(call)
        if fault is not None and fault.error_code is not None:
            self._answer_error(call, fault.error_code)
            return
        if fault is not None and not fault.forward:
            self._run_action(fault)
            self.close_connection = True
            return
        started = time.time()
        status, headers, answer = self._forward(plane, f"/{path}", body)
        self.proxy.calls.append(replace(call, status=status, started=started, ended=time.time()))
        if fault is not None:
            self._run_action(fault)
        self._answer(status, headers, answer)

    def _run_action(self, fault: CallFault) -> None:
        if fault.action is not None:
            fault.action()

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _relay  # noqa: N815 - the base class's names

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            wanted = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(wanted)
            if len(body) < wanted:
                # The caller was killed before the end of its request; the call does not count.
                raise ConnectionResetError
            return body
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return body

    def _forward(self, plane: str, path: str, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        target = self.proxy.targets[plane]
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_FORWARDED}
        headers["Host"] = target
        headers["Content-Length"] = str(len(body))
        for fresh in (False, True):
            if fresh and plane in self.upstream:
                self.upstream.pop(plane).close()
            if plane not in self.upstream:
                self.upstream[plane] = http.client.HTTPConnection(target, timeout=60 * BUSY_FACTOR)
            connection = self.upstream[plane]
            try:
                connection.request(self.command, path, body, headers)
                response = connection.getresponse()
                return response.status, response.getheaders(), response.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # The emulator closes idle connections; it did not receive a request on one of them.
                if fresh:
                    raise
        raise AssertionError

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _NOT_FORWARDED:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _answer_error(self, call: Call, code: str) -> None:
        if call.service in {"autoscaling", "ec2", "sns"}:
            xml = f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code></Error></ErrorResponse>"
            self._answer(400, [("Content-Type", "text/xml")], xml.encode())
        else:
            document = {"__type": code, "message": "injected fault"}
            self._answer(400, [("Content-Type", "application/x-amz-json-1.0")], json.dumps(document).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        return
