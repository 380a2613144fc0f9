"""Convert AWS and network errors to `FaultbridgeError`: conflict, transient or misconfigured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
    NoCredentialsError,
    NoRegionError,
)
from botocore.exceptions import ConnectionError as BotoConnectionError
from botocore.parsers import ResponseParserError

from faultbridge.model.errors import Conflict, FaultbridgeError, Misconfigured, Transient

AWS_ERRORS = (ClientError, BotoCoreError, ResponseParserError)
"""The errors that a call of AWS raises."""

CONFLICTS = frozenset(
    {"ConditionalCheckFailedException", "ReplicatedWriteConflictException", "TransactionConflictException"}
)

MISSING_SETTINGS: Mapping[type[Exception], str] = {
    NoRegionError: "no AWS region is set; set AWS_REGION, or give --region REGION",
    NoCredentialsError: "no AWS credentials were found; set AWS_PROFILE, or give --profile PROFILE",
}
"""Error texts that replace the texts of botocore: what is missing, and where to set it."""

THROTTLES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "ExecutionLimitExceeded",
        "KMS.ThrottlingException",
        "KMSThrottling",
        "KmsThrottled",
        "OverLimit",
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

CREDENTIALS = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "RequestExpired",
        "UnrecognizedClientException",
    }
)
"""Refusals of credentials: those of a role pass within minutes, once STS answers again."""

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

# Errors of botocore without a complete response. A parser error means a response that is not from AWS, such as the
# error page of a proxy or an HTTP 500 of an emulator.
NO_RESPONSE = (
    BotoConnectionError,
    HTTPClientError,
    ResponseParserError,
    CredentialRetrievalError,
    MetadataRetrievalError,
)


def code_of(error: ClientError) -> str:
    """Return the AWS error code of an error; `Unknown` if the response has none."""
    return str(error.response.get("Error", {}).get("Code", "Unknown"))


def message_of(error: ClientError) -> str:
    """Return the AWS error message of an error; empty if the response has none."""
    return str(error.response.get("Error", {}).get("Message", ""))


def status_of(error: ClientError) -> int:
    """Return the HTTP status of an AWS error, or 0 if the response has none."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_throttle(error: ClientError) -> bool:
    """Return whether AWS refused the call for now, by a limit or its credentials. It may succeed later."""
    return code_of(error) in THROTTLES | CREDENTIALS or status_of(error) == HTTPStatus.TOO_MANY_REQUESTS


def is_outage(error: ClientError) -> bool:
    """Return whether AWS failed, or did not finish the call, so that the outcome of the call is unknown."""
    return code_of(error) in OUTAGES or status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR


def translate(error: Exception, action: str) -> FaultbridgeError:
    """Convert an AWS or network error to a FaultbridgeError, whose text starts with the failed `action`."""
    if isinstance(error, ClientError):
        text = f"{action}: {code_of(error)}: {message_of(error)}"
        if code_of(error) in CONFLICTS:
            return Conflict(text)
        return Transient(text) if is_throttle(error) or is_outage(error) else Misconfigured(text)
    text = f"{action}: {MISSING_SETTINGS.get(type(error)) or error}"
    return Transient(text) if isinstance(error, NO_RESPONSE) else Misconfigured(text)


@contextmanager
def translated(action: str) -> Iterator[None]:
    """Convert AWS and network errors in the block as `translate` does."""
    try:
        yield
    except AWS_ERRORS as error:
        raise translate(error, action) from error
