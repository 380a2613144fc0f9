"""SQS and S3 over HTTP with a check of Signature Version 4, written from the specification alone.

Source: AWS, "Create a signed AWS API request". It shares no code with the agent: the canonical request is built from
what arrived on the socket.
"""

from __future__ import annotations

import hashlib
import hmac
import http.server
import json
import re
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import parse_qsl, quote, unquote

MAX_SKEW = timedelta(minutes=5)
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/([^/]+)/aws4_request, "
    r"SignedHeaders=([^,]+), Signature=(\w{64})"
)


class SignatureChecker:
    """A local server that accepts only calls with a valid signature; `now` is the clock of the service.

    A test sets `answer` to refuse calls for another reason: it returns a status and a document, or None.
    """

    def __init__(self, secrets: dict[str, str], now: Callable[[], datetime]) -> None:
        self.secrets, self.now = secrets, now
        self.messages: list[str] = []
        self.objects: dict[str, bytes] = {}
        self.refusals: list[str] = []
        self.answer: Callable[[str, bytes], tuple[int, object] | None] = lambda _path, _body: None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer._serve(self)

            def do_PUT(self) -> None:
                outer._serve(self)

            def date_time_string(self, _timestamp: float | None = None) -> str:
                return format_datetime(outer.now().astimezone(UTC), usegmt=True)

            def log_message(self, *_: object) -> None:
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, request: http.server.BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        problem = self.problem(request.command, request.path, dict(request.headers.items()), body)
        if problem is not None:
            self.refusals.append(problem)
            self._respond(request, 403, {"__type": f"com.amazonaws.sqs#{problem}"})
            return
        answer = self.answer(request.path, body)
        if answer is not None:
            self._respond(request, *answer)
        elif request.command == "PUT":
            self.objects[unquote(request.path)] = body
            self._respond(request, 200, {})
        else:
            self.messages += [entry["MessageBody"] for entry in json.loads(body)["Entries"]]
            self._respond(request, 200, {"Successful": []})

    def _respond(self, request: http.server.BaseHTTPRequestHandler, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        request.send_response(status)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def problem(self, method: str, target: str, headers: dict[str, str], body: bytes) -> str | None:
        """Return the error code of a call, or None when its signature is valid."""
        received = {name.lower(): value for name, value in headers.items()}
        found = _AUTHORIZATION.fullmatch(received.get("authorization", ""))
        if found is None:
            return "IncompleteSignature"
        key_id, day, region, service, names, signature = found.groups()
        if key_id not in self.secrets:
            return "InvalidClientTokenId"
        at = datetime.strptime(received["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if abs(at - self.now()) > MAX_SKEW or f"{at:%Y%m%d}" != day:
            return "SignatureDoesNotMatch" if service == "sqs" else "RequestTimeTooSkewed"
        must_sign = {"host", *(name for name in received if name.startswith("x-amz-"))}
        if not must_sign <= set(names.split(";")):
            return "SignatureDoesNotMatch"
        content = hashlib.sha256(body).hexdigest()
        if service == "s3" and received.get("x-amz-content-sha256") != content:
            return "XAmzContentSHA256Mismatch"
        path, _, query = target.partition("?")
        pairs = sorted(
            (quote(name, "~"), quote(value, "~")) for name, value in parse_qsl(query, keep_blank_values=True)
        )
        lines = [f"{name}:{' '.join(received[name].split())}\n" for name in names.split(";")]
        canonical = "\n".join(
            [method, quote(unquote(path), "/~"), "&".join(map("=".join, pairs)), "".join(lines), names, content]
        )
        scope = f"{day}/{region}/{service}/aws4_request"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{received['x-amz-date']}\n{scope}\n{digest}"
        signing_key = b"AWS4" + self.secrets[key_id].encode()
        for part in (day, region, service, "aws4_request"):
            signing_key = hmac.new(signing_key, part.encode(), hashlib.sha256).digest()
        expected = hmac.new(signing_key, text.encode(), hashlib.sha256).hexdigest()
        return None if hmac.compare_digest(expected, signature) else "SignatureDoesNotMatch"
