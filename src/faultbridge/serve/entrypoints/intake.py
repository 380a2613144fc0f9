"""The intake function: forwards webhook requests and CloudWatch Logs batches to the record queue."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType, to_builtins

from faultbridge.adapters.aws.telemetry import emit, logger
from faultbridge.model.errors import FaultbridgeError, Rejected, Transient
from faultbridge.serve.api.problems import MEDIA_TYPE, Problem, problem
from faultbridge.serve.entrypoints.http_event import HttpRequest, HttpResponse
from faultbridge.serve.entrypoints.lambda_events import read
from faultbridge.serve.gateway.log_subscription import Forward, LogSubscription
from faultbridge.serve.gateway.webhooks import MAX_LOGGED, WebhookRequest, Webhooks
from faultbridge.serve.wiring.installation import once

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation

TIMESTAMP, SIGNATURE = "x-faultbridge-timestamp", "x-faultbridge-signature"
AUTHORIZATION = "authorization"
MAX_REQUEST = 10 * 1024 * 1024
"""The most bytes that API Gateway accepts; `Webhooks` accepts less."""

_STATUS: Mapping[str, HTTPStatus] = {
    "unauthorised": HTTPStatus.UNAUTHORIZED,
    "forbidden": HTTPStatus.FORBIDDEN,
    "replayed": HTTPStatus.CONFLICT,
    "too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
}


class _Logs(Struct, frozen=True):
    data: str = ""


class _Call(Struct, frozen=True):
    awslogs: _Logs | UnsetType | None = UNSET


def intake(event: object, installation: Installation) -> HttpResponse | Mapping[str, str | None]:
    """Forward one webhook request, or one batch of CloudWatch log events, to the record queue.

    Returns the HTTP response to the webhook request. For a batch, the result contains the record id (None if the batch
    contains no event to record), or the reason of the refusal.
    """
    logs = read(event, _Call).awslogs
    if logs is not UNSET:
        return _forward_logs(logs.data if logs else "", installation)
    return _forward_webhook(event, installation)


@once
def wire_webhooks(app: Installation) -> Webhooks:
    """Return the service that accepts webhook posts of configured senders."""
    ports = app.ports
    return Webhooks(Forward(ports.queue, ports.objects), ports.table, ports.clock, ports.webhook_senders)


@once
def wire_log_subscription(app: Installation) -> LogSubscription:
    """Return the service that accepts batches from CloudWatch Logs subscriptions."""
    return LogSubscription(Forward(app.ports.queue, app.ports.objects), app.ports.clock)


def _forward_logs(data: str, installation: Installation) -> Mapping[str, str | None]:
    """Forward a batch of log events; an invalid batch is logged and dropped.

    After any other error, Lambda retries the batch.
    """
    try:
        record_id = wire_log_subscription(installation).accept(data)
    except Rejected as error:
        logger().error("a batch of log events was refused", reason=error.reason, detail=error.detail)
        emit({"IntakeTaken": 0, "IntakeRefused": 1}, channel="logs", reason=error.reason)
        return {"refused": error.reason}
    emit({"IntakeTaken": int(record_id is not None), "IntakeRefused": 0}, channel="logs", record=record_id)
    return {"record_id": record_id}


def _forward_webhook(event: object, installation: Installation) -> HttpResponse:
    sender = ""
    try:
        post = _post_of(read(event, HttpRequest))
        sender = post.sender[:MAX_LOGGED]
        record_id = wire_webhooks(installation).accept(post)
    except Rejected as error:
        emit({"IntakeTaken": 0, "IntakeRefused": 1}, channel="webhook", reason=error.reason, sender=sender)
        status = _STATUS.get(error.reason, HTTPStatus.BAD_REQUEST)
        return _response(status, problem(status, error.reason, error.detail), MEDIA_TYPE)
    except FaultbridgeError as error:
        logger().exception("a webhook request could not be forwarded", sender=sender)
        emit({"IntakeTaken": 0, "IntakeRefused": 0, "IntakeFailed": 1}, channel="webhook")
        transient = isinstance(error, Transient)
        status = HTTPStatus.SERVICE_UNAVAILABLE if transient else HTTPStatus.INTERNAL_SERVER_ERROR
        return _response(status, problem(status, "try_again" if transient else "internal", ""), MEDIA_TYPE)
    emit({"IntakeTaken": 1, "IntakeRefused": 0}, channel="webhook", record=record_id, sender=post.sender)
    return _response(HTTPStatus.ACCEPTED, {"record_id": record_id}, "application/json")


def _post_of(request: HttpRequest) -> WebhookRequest:
    path, headers = request.path_parameters or {}, request.lower_headers
    return WebhookRequest(
        method=request.request_context.http.method,
        sender=path.get("sender", ""),
        source=path.get("source", ""),
        body=request.raw(MAX_REQUEST),
        timestamp=headers.get(TIMESTAMP, ""),
        signature=headers.get(SIGNATURE, ""),
        authorization=headers.get(AUTHORIZATION, ""),
    )


def _response(status: HTTPStatus, document: Problem | Mapping[str, str | None], media_type: str) -> HttpResponse:
    headers = {"Content-Type": media_type, "Cache-Control": "no-store"}
    return {"statusCode": status.value, "headers": headers, "body": json.dumps(to_builtins(document))}
