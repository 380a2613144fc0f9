"""What an error of AWS or of the way there means: who may mend it, and whether time helps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError

from faultbridge.errors import Conflict, FaultbridgeError, Misconfigured, Transient

CONFLICTS = frozenset(
    {
        "ConditionalCheckFailedException",
        "ReplicatedWriteConflictException",
        "TransactionConflictException",
    }
)

THROTTLES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "ExecutionLimitExceeded",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)

OUTAGES = frozenset(
    {
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "InternalServiceError",
        "KMSInternalException",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "ServiceUnavailableException",
        "TransactionInProgressException",
    }
)

# What botocore raises when no whole answer came back. A parser error is an answer that is none of AWS: the
# error page of a proxy, or an emulator's 500.
LOST = (
    BotoConnectionError,
    HTTPClientError,
    ResponseParserError,
    CredentialRetrievalError,
    MetadataRetrievalError,
)


def code_of(error: ClientError) -> str:
    """Return the service's own code of an error."""
    return str(error.response.get("Error", {}).get("Code", "Unknown"))


def message_of(error: ClientError) -> str:
    """Return the service's own words of an error."""
    return str(error.response.get("Error", {}).get("Message", ""))


def status_of(error: ClientError) -> int:
    """Return the HTTP status of an error, 0 when the answer carries none."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_throttle(error: ClientError) -> bool:
    """Tell whether the service asks for fewer calls."""
    return code_of(error) in THROTTLES or status_of(error) == HTTPStatus.TOO_MANY_REQUESTS


def is_outage(error: ClientError) -> bool:
    """Tell whether the service failed, so that nobody knows what became of the call."""
    return code_of(error) in OUTAGES or status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR


def translate(error: Exception, what: str) -> FaultbridgeError:
    """Name an error by what helps; `what` says what was tried, for people."""
    if isinstance(error, ClientError):
        text = f"{what}: {code_of(error)}: {message_of(error)}"
        if code_of(error) in CONFLICTS:
            return Conflict(text)
        return Transient(text) if is_throttle(error) or is_outage(error) else Misconfigured(text)
    text = f"{what}: {error}"
    return Transient(text) if isinstance(error, LOST) else Misconfigured(text)


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Let nothing of botocore out of the block: what is raised is a FaultbridgeError."""
    try:
        yield
    except (ClientError, BotoCoreError, ResponseParserError) as error:
        raise translate(error, what) from error
