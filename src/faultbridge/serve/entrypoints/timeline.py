"""The timeline function: serves the HTTP API for the recorded history behind API Gateway."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from msgspec import Struct

from faultbridge.adapters.aws.telemetry import emit, logger
from faultbridge.decode.data import offender_odds
from faultbridge.model import names
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Rejected
from faultbridge.model.event_data import json_text
from faultbridge.model.log import log_cause
from faultbridge.record.history import DeviceHistory
from faultbridge.record.timeline import Timeline, Tokens
from faultbridge.record.verify import Verify
from faultbridge.repair.findings.judgments import Judgments
from faultbridge.repair.registry.documents import Document
from faultbridge.repair.registry.job_views import JobViews
from faultbridge.repair.registry.views import Views
from faultbridge.serve.api.problems import MEDIA_TYPE, problem_of
from faultbridge.serve.api.requests import IDEMPOTENCY_KEY, Paging, Request, checked_key, read_query
from faultbridge.serve.api.routes import ROUTES, Handlers, Route
from faultbridge.serve.entrypoints.http_event import HttpRequest, HttpResponse, caller_of
from faultbridge.serve.entrypoints.lambda_events import read
from faultbridge.serve.gateway.on_call import OnCall, SignedRequest, SlackAnswer
from faultbridge.serve.wiring.installation import once
from faultbridge.serve.wiring.services import wire_api_jobs, wire_orders

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation

HEADERS: dict[str, str] = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def timeline(event: dict[str, object], context: object, installation: Installation) -> HttpResponse:
    """Serve one request of the HTTP API, or one of Slack or PagerDuty, and count it in the metrics."""
    request = read(event, HttpRequest)
    hook = HOOKS.get(request.raw_path)
    response = answer_hook(hook, request, installation) if hook else answer(event, request, context, installation)
    emit({"Requests": 1, "Refused": int(response["statusCode"] >= 400)})  # noqa: PLR2004 - HTTP errors start at 400
    return response


def answer(event: dict[str, object], request: HttpRequest, context: object, installation: Installation) -> HttpResponse:
    """Return the response to one request; every error becomes a problem document (RFC 9457).

    A response never contains a traceback.
    """
    resolver = APIGatewayHttpResolver()
    for route in ROUTES:
        path = route.path.replace("{", "<").replace("}", ">")
        resolver.route(path, method=[route.method])(_handler_of(route, request, installation))
    unknown = Rejected("unknown_route", "no such route; see docs/reference/openapi.json")
    resolver.not_found(lambda _error: _error_response(unknown))
    return resolver.resolve(event, context)  # type: ignore[return-value,arg-type]  # it does not read the context


HOOKS = {"/hooks/slack": "slack", "/hooks/pagerduty": "pagerduty"}
"""The paths without an authorizer: the signature of a request is its only proof."""


def answer_hook(service: str, request: HttpRequest, installation: Installation) -> HttpResponse:
    """Return the response to a request of Slack or PagerDuty; status 200 once its signature is proven.

    A refused order is status 200 too, because neither service shows or uses another status of a valid request.
    """
    try:
        signed = SignedRequest(request.raw(), request.lower_headers)
        on_call = wire_on_call(installation)
        text = on_call.slack(signed) if service == "slack" else on_call.pagerduty(signed)
    except Rejected as error:
        proven = error.reason not in {"unauthorised", "bad_body", "too_large"}
        status, document = problem_of(error)
        text, code = json_text(document), 200 if proven else status.value
    except FaultbridgeError as error:
        logger().exception("a request failed", route=service)
        status, document = problem_of(error)
        text, code = json_text(document), status.value
    else:
        log_cause("on_call_request", reason=text, service=service)
        text, code = "", 200
    return {"statusCode": code, "headers": {"Content-Type": MEDIA_TYPE, **HEADERS}, "body": text}


@once
def wire_on_call(app: Installation) -> OnCall:
    """Return the service that executes the orders that people give in Slack and PagerDuty."""
    from faultbridge.adapters.http_post import post_json

    def reply(url: str, answer: SlackAnswer) -> None:
        post_json("Slack", url, json_text(answer).encode(), page="answer")

    return OnCall(wire_orders(app), app.ports.clock, app.ports.on_call, reply)


def _handler_of(route: Route, request: HttpRequest, installation: Installation) -> Callable[..., Response[str]]:
    def serve(**path: str) -> Response[str]:
        try:
            return _response(200, _call_route(route, request, path, installation))
        except FaultbridgeError as error:
            if not isinstance(error, Rejected):
                logger().exception("a request failed", route=route.name)
            return _error_response(error)
        except Exception:  # noqa: BLE001 - the caller only learns that it is an internal error
            logger().exception("a request failed", route=route.name)
            return _error_response(Misconfigured("a bug"))

    return serve


def _call_route(route: Route, of: HttpRequest, path: Mapping[str, str], installation: Installation) -> Document:
    caller = caller_of(of)
    if route.in_cluster:
        names.cluster_name(path["cluster"])
    caller.check(path.get("cluster"))
    if route.is_write:
        caller.check_operator(path.get("cluster"))
    query, key = read_query(of.raw_query_string), checked_key(of.lower_headers.get(IDEMPOTENCY_KEY.lower()))
    request = Request(path, query, of.text(), caller, key)
    request.check_parameters(*(one.name for one in route.parameters))
    return route.handler(wire_api(installation), request)


def _error_response(error: FaultbridgeError) -> Response[str]:
    status, document = problem_of(error)
    return _response(status.value, document, MEDIA_TYPE)


def _response(status: int, document: Struct, media_type: str = "application/json") -> Response[str]:
    return Response(status_code=status, content_type=media_type, body=json_text(document), headers=dict(HEADERS))


@once
def wire_api(app: Installation) -> Handlers:
    """Return the functions that answer the requests of the HTTP API."""
    table = app.ports.table
    return Handlers(
        directory=Views(table),
        timeline=Timeline(table),
        verify=Verify(table, app.stack),
        orders=wire_orders(app),
        clock=app.ports.clock,
        paging=Paging(Tokens(app.ports.token_secret)),
        devices=DeviceHistory(table),
        judgments=Judgments(app.append),
        odds=offender_odds(),
        job_views=JobViews(table),
        recorded_jobs=wire_api_jobs(app),
        policy=app.rulebook.policy,
    )
