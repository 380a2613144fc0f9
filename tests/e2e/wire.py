"""The wire between the functions and the two emulators: it hears every call, and may lose one or its answer.

A fake of the network, nothing more: a call that it forwards is answered by the emulator. Each function is told by
`AWS_ENDPOINT_URL` to call this proxy under its own path, which is how a call is known to be that function's.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

EVENT, COMPUTE = "event", "compute"
_COMPUTE_SERVICES = ("EC2", "AUTO_SCALING", "SSM", "SAGEMAKER", "EKS")
_NOT_PASSED_ON = frozenset({"host", "connection", "content-length", "transfer-encoding", "expect", "keep-alive"})
_S3_OPERATIONS = {"GET": "GetObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
_SIGNED_FOR = re.compile(r"Credential=[^/]+/\d{8}/[^/]+/(?P<service>[^/]+)/aws4_request")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one function, as it went over the wire; `status` is what the emulator answered.

    `began` and `ended` are seconds since 1970, of the forwarding alone.
    """

    function: str
    service: str
    operation: str
    arguments: Mapping[str, Any]
    status: int = 0
    began: float = 0.0
    ended: float = 0.0

    @property
    def name(self) -> str:
        """The call as `service:Operation`."""
        return f"{self.service}:{self.operation}"


@dataclass(slots=True)
class Accident:
    """What happens to calls of one name that one function makes.

    `then` is done when a call was answered, before the function hears of it; where the call never `arrives`, instead
    of forwarding it. `code` answers the call with an error in the service's place. Of the calls in which the text
    `about` occurs the first `skip` are spared; it happens `times` times.
    """

    function: str
    call: str
    then: Callable[[], object] | None = None
    arrives: bool = True
    code: str | None = None
    about: str = ""
    skip: int = 0
    times: int = 1
    happened: int = 0


@dataclass(slots=True)
class Wire:
    """A recording proxy on 127.0.0.1; `targets` are the emulators by plane, as `host:port`, known before any call.

    End the emulators first: whoever still calls when the wire ends is cut off.
    """

    targets: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    _accidents: list[Accident] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _server: _Server | None = None

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"wire": self}))
        threading.Thread(target=self._server.serve_forever, daemon=True, name="wire").start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.cut_off()
            self._server.server_close()

    def environment(self, function: str) -> dict[str, str]:
        """The variables that let a function call through here."""
        assert self._server is not None
        base = f"http://127.0.0.1:{self._server.server_port}/{function}"
        compute = {f"AWS_ENDPOINT_URL_{service}": f"{base}/{COMPUTE}" for service in _COMPUTE_SERVICES}
        return {"AWS_ENDPOINT_URL": f"{base}/{EVENT}", **compute}

    @contextmanager
    def accidents(self, *accidents: Accident) -> Iterator[None]:
        """Let them happen within the block, the first that fits a call before the others."""
        with self._lock:
            self._accidents.extend(accidents)
        try:
            yield
        finally:
            with self._lock:
                self._accidents = [one for one in self._accidents if one not in accidents]

    def meets(self, call: Call) -> Accident | None:
        """The accident that happens to this call, if one does."""
        with self._lock:
            for accident in self._accidents:
                if (accident.function, accident.call) != (call.function, call.name):
                    continue
                if accident.about and accident.about not in json.dumps(call.arguments):
                    continue
                if accident.skip:
                    accident.skip -= 1
                elif accident.happened < accident.times:
                    accident.happened += 1
                    return accident
        return None

    def made(self, function: str, name: str) -> int:
        """How often a function made a call so far."""
        return sum(call.function == function and call.name == name for call in list(self.calls))


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.open: set[socket.socket] = set()

    def cut_off(self) -> None:
        for connection in list(self.open):
            with suppress(OSError):  # it hung up in this moment
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A worker that is killed hangs up in the middle of a call: that is the purpose."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    wire: Wire
    protocol_version = "HTTP/1.1"
    # Small packets are not held back for an acknowledgement: a call would take 40 ms more.
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
        self.wfile.flush()  # else the caller waits a second for the word
        return True

    def _relay(self) -> None:
        _, function, plane, *rest = self.path.split("/", 3)
        path = "".join(rest)
        body = self._body()
        call = read_call(function, self.command, f"/{path}", self.headers, body)
        accident = self.wire.meets(call)
        if accident is not None and accident.code is not None:
            self._refuse(call, accident.code)
            return
        if accident is not None and not accident.arrives:
            self._happen(accident)
            self.close_connection = True
            return
        began = time.time()
        status, headers, answer = self._forward(plane, f"/{path}", body)
        self.wire.calls.append(replace(call, status=status, began=began, ended=time.time()))
        if accident is not None:
            self._happen(accident)
        self._answer(status, headers, answer)

    def _happen(self, accident: Accident) -> None:
        if accident.then is not None:
            accident.then()

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _relay  # noqa: N815 - the base class's names

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            wanted = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(wanted)
            if len(body) < wanted:
                # The caller was killed before its last word: such a call never was.
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
        target = self.wire.targets[plane]
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
        headers["Host"] = target
        headers["Content-Length"] = str(len(body))
        for fresh in (False, True):
            if fresh and plane in self.upstream:
                self.upstream.pop(plane).close()
            if plane not in self.upstream:
                self.upstream[plane] = http.client.HTTPConnection(target, timeout=60)
            connection = self.upstream[plane]
            try:
                connection.request(self.command, path, body, headers)
                response = connection.getresponse()
                return response.status, response.getheaders(), response.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # The emulator closes idle connections; a request on one of them never arrived.
                if fresh:
                    raise
        raise AssertionError

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _NOT_PASSED_ON:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, call: Call, code: str) -> None:
        if call.service in {"autoscaling", "ec2", "sns"}:
            said = f"<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code></Error></ErrorResponse>"
            self._answer(400, [("Content-Type", "text/xml")], said.encode())
        else:
            told = {"__type": code, "message": "refused on the wire"}
            self._answer(400, [("Content-Type", "application/x-amz-json-1.0")], json.dumps(told).encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        return


def read_call(function: str, method: str, path: str, headers: Any, body: bytes) -> Call:
    """Tell which call of which service a request is; the service is the one that the request was signed for."""
    signed = _SIGNED_FOR.search(headers["Authorization"])
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
    _, collection, name = path.split("/")
    assert (method, collection) == ("GET", "clusters"), (method, path)
    return "DescribeCluster", {"name": name}


_REST = {"s3": _s3, "eks": _eks}
