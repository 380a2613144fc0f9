"""The console function: serves the web console behind API Gateway, and takes the orders that its forms post."""

from __future__ import annotations

import base64
import gzip
from typing import TYPE_CHECKING
from urllib.parse import unquote

from faultbridge.adapters.aws.telemetry import emit, logger
from faultbridge.model.errors import FaultbridgeError, Rejected
from faultbridge.record.timeline import Tokens
from faultbridge.serve.api.requests import MAX_BODY, Request, read_query
from faultbridge.serve.casefile.collect import CaseFiles
from faultbridge.serve.console.html import BASE, Links
from faultbridge.serve.console.orders import OrderForms
from faultbridge.serve.console.pages import Content, Pages
from faultbridge.serve.entrypoints.http_event import HttpRequest, HttpResponse, caller_of
from faultbridge.serve.entrypoints.lambda_events import read
from faultbridge.serve.wiring.installation import once
from faultbridge.serve.wiring.services import wire_facts, wire_orders

if TYPE_CHECKING:
    from collections.abc import Mapping

    from faultbridge.serve.wiring.installation import Installation

MIN_COMPRESSED = 1_000


def console(event: object, installation: Installation) -> HttpResponse:
    """Serve one page of the console, and count the request in the metrics."""
    response = answer(event, installation)
    emit({"Requests": 1, "Refused": int(response["statusCode"] >= 400)})  # noqa: PLR2004 - HTTP errors start at 400
    return response


def answer(event: object, installation: Installation) -> HttpResponse:
    """Return the page for one request; every error becomes an error page without a traceback."""
    request = read(event, HttpRequest)
    headers = request.lower_headers
    content = _content(request, headers, installation)
    if content.not_modified(headers.get("if-none-match", "")):
        return {"statusCode": 304, "headers": content.headers()}
    return _response(content, compress="gzip" in headers.get("accept-encoding", ""))


def _content(of: HttpRequest, headers: Mapping[str, str], installation: Installation) -> Content:
    pages = wire_console(installation)
    try:
        path = unquote(of.raw_path).removeprefix(BASE)
        request = Request({}, read_query(of.raw_query_string), caller=caller_of(of))
        if of.request_context.http.method != "POST":
            return pages(path, request)
        return pages.post(path, request, read_query(_form_of(of)), headers)
    except FaultbridgeError as error:
        return pages.error(error)
    except Exception:  # noqa: BLE001 - the caller only learns that it is an internal error
        logger().exception("a request failed")
        return pages.internal_error()


def _form_of(request: HttpRequest) -> str:
    body = request.text()
    if len(body) > MAX_BODY:
        raise Rejected("bad_body", f"the form is too large; allowed: {MAX_BODY} characters")
    return body


def _response(content: Content, *, compress: bool) -> HttpResponse:
    body = content.body
    headers = content.headers() | {"Vary": "Accept-Encoding"}
    if compress and len(body) >= MIN_COMPRESSED:
        body, headers = gzip.compress(body, 6, mtime=0), headers | {"Content-Encoding": "gzip"}
    return {
        "statusCode": content.status.value,
        "headers": headers,
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
    }


@once
def wire_console(app: Installation) -> Pages:
    """Return the service that answers requests for web pages of the console, and takes its orders."""
    facts, settings = wire_facts(app), app.settings
    forms = OrderForms(facts, wire_orders(app), Tokens(app.ports.token_secret))
    collect = CaseFiles(app.ports.table, app.ports.vault, app.ports.clock, app.stack)
    return Pages(facts, Links(runbooks=settings.runbook_url), forms, collect)
