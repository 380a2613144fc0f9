"""Real AWS clients with stubbed responses and errors, for responses that no emulator gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError
from botocore.model import OperationModel
from botocore.stub import Stubber
from botocore.validate import validate_parameters

from faultbridge.adapters.aws.clients import Clients

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
}


def client_error(code: str, message: str = "words", status: int = 400, operation: str = "Operation") -> ClientError:
    """Return an error as botocore raises it."""
    return ClientError(
        {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item] # the other fields are optional
        operation,
    )


NAMES = (
    "dynamodb",
    "eks",
    "sagemaker",
    "events",
    "sqs",
    "s3",
    "firehose",
    "sns",
    "stepfunctions",
    "logs",
    "iam",
    "ec2",
    "ec2_no_retry",
    "autoscaling",
    "autoscaling_no_retry",
    "ssm",
    "ssm_no_retry",
    "cloudwatch",
)


@contextmanager
def stubbed(name: str) -> Iterator[tuple[Clients, Stubber]]:
    """Return clients, one of which (`sqs`, `autoscaling_no_retry`, ...) returns the responses in the stub."""
    clients = _clients()
    with Stubber(getattr(clients, name)) as stub:
        yield clients, stub
        stub.assert_no_pending_responses()


@contextmanager
def served(name: str, operations: object) -> Iterator[Clients]:
    """Return clients, one of which is answered by an object with a method for each operation, as `send_command`.

    botocore checks each request, and its own model of the service checks each answer.
    """
    clients = _clients()
    requests: list[dict[str, Any]] = []
    client = getattr(clients, name)
    service = client.meta.service_model.service_name

    def remember(params: dict[str, Any], **_: Any) -> None:
        requests.append(params)

    def answer(model: OperationModel, **_: Any) -> tuple[AWSResponse, dict[str, Any]]:
        answered = getattr(operations, xform_name(model.name))(**requests.pop())
        if model.output_shape is not None:
            validate_parameters(answered, model.output_shape)
        return AWSResponse("", 200, HTTPHeaders(), _Raw(b"")), answered

    client.meta.events.register(f"before-parameter-build.{service}", remember)
    client.meta.events.register(f"before-call.{service}", answer)
    try:
        yield clients
    finally:
        client.meta.events.unregister(f"before-parameter-build.{service}", remember)
        client.meta.events.unregister(f"before-call.{service}", answer)


@contextmanager
def failing(name: str, error: Exception, requests: list[Any] | None = None) -> Iterator[Clients]:
    """Return clients, one of which raises this error instead of sending a request."""
    seen = [] if requests is None else requests

    def fail(request: Any, **_: Any) -> AWSResponse:
        seen.append(request)
        raise error

    with _sending(name, fail) as clients:
        yield clients


@contextmanager
def answering(name: str, status: int, body: bytes, requests: list[Any] | None = None) -> Iterator[Clients]:
    """Return clients, one of which always gets this HTTP response."""
    seen = [] if requests is None else requests

    def respond(request: Any, **_: Any) -> AWSResponse:
        seen.append(request)
        return AWSResponse(request.url, status, HTTPHeaders(), _Raw(body))

    with _sending(name, respond) as clients:
        yield clients


class _Raw:
    """The body of an HTTP response, as botocore reads it (fake)."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._body


@contextmanager
def _sending(name: str, send: Callable[..., AWSResponse]) -> Iterator[Clients]:
    clients = _clients()
    events = getattr(clients, name).meta.events
    events.register("before-send", send)
    try:
        with mock.patch("time.sleep"):  # the pause between botocore's own attempts
            yield clients
    finally:
        events.unregister("before-send", send)


@cache
def _clients() -> Clients:
    """Shared clients: creating one takes 0.1 s, and it reads the credentials at creation."""
    with mock.patch.dict("os.environ", ENVIRONMENT):
        clients = Clients()
        for name in NAMES:
            getattr(clients, name)
    return clients
