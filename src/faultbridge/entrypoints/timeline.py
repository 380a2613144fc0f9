"""The HTTP API: an event of the gateway to a question, an answer or a problem back."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from faultbridge.adapters.telemetry import emit, logger
from faultbridge.api.problems import MEDIA_TYPE, problem_of
from faultbridge.api.requests import Caller, Request, read_query
from faultbridge.api.routes import ROUTES, Route
from faultbridge.domain import names
from faultbridge.errors import FaultbridgeError, Misconfigured, Rejected

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application

CLUSTERS_CLAIM = "faultbridge_clusters"
"""The claim of a token that lists the clusters it is good for; `*` is all of them."""

HEADERS: dict[str, str | list[str]] = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def timeline(event: dict[str, Any], context: object, application: Application) -> dict[str, Any]:
    """Answer one request; whatever goes wrong is a problem document and never a traceback."""
    resolver = APIGatewayHttpResolver()
    for route in ROUTES:
        path = route.path.replace("{", "<").replace("}", ">")
        resolver.route(path, method=[route.method])(_served(route, event, application))
    resolver.not_found(lambda _error: _refused(Rejected("unknown_route", "there is no such route")))
    answer: dict[str, Any] = resolver.resolve(event, context)  # type: ignore[arg-type]  # it reads nothing of the context
    emit({"Requests": 1, "Refused": int(answer["statusCode"] >= 400)})  # noqa: PLR2004 - where HTTP's errors begin
    return answer


def _served(route: Route, event: Mapping[str, Any], application: Application) -> Callable[..., Response[str]]:
    def serve(**path: str) -> Response[str]:
        try:
            return _response(200, _answer(route, event, path, application))
        except FaultbridgeError as error:
            if not isinstance(error, Rejected):
                logger.exception("a request failed", route=route.name)
            return _refused(error)
        except Exception:  # noqa: BLE001 - whatever it is, the caller learns that it is ours and nothing else
            logger.exception("a request failed", route=route.name)
            return _refused(Misconfigured("a bug"))

    return serve


def _answer(
    route: Route, event: Mapping[str, Any], path: Mapping[str, str], application: Application
) -> Mapping[str, Any]:
    caller = _caller(event)
    if route.in_cluster:
        names.cluster_name(path["cluster"])
    caller.check(path.get("cluster"))
    query = read_query(str(event.get("rawQueryString") or ""))
    return route.answer(application.timeline, Request(path, query, _body(event), caller))


def _caller(event: Mapping[str, Any]) -> Caller:
    """Tell who asks. A gateway that authorises by IAM has let only those through whose policy names the route."""
    authorizer = event.get("requestContext", {}).get("authorizer") or {}
    token = authorizer.get("jwt")
    if token is None:
        return Caller(str((authorizer.get("iam") or {}).get("userArn") or "iam"))
    claims = token.get("claims") or {}
    # The gateway hands a list over as the text `[a b]`.
    clusters = str(claims.get(CLUSTERS_CLAIM) or "").strip("[]").replace(",", " ").split()
    return Caller(str(claims.get("sub") or "jwt"), frozenset(clusters))


def _body(event: Mapping[str, Any]) -> str:
    body = str(event.get("body") or "")
    if not event.get("isBase64Encoded"):
        return body
    try:
        return base64.b64decode(body).decode()
    except (binascii.Error, ValueError):
        raise Rejected("bad_body", "the body is no text") from None


def _refused(error: FaultbridgeError) -> Response[str]:
    status, document = problem_of(error)
    return _response(status.value, document, MEDIA_TYPE)


def _response(status: int, document: Mapping[str, Any], media_type: str = "application/json") -> Response[str]:
    return Response(status_code=status, content_type=media_type, body=json.dumps(document), headers=dict(HEADERS))
