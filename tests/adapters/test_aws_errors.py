"""Conversion of AWS errors."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError

from faultbridge.adapters.aws.errors import translate, translated
from faultbridge.model.errors import Conflict, FaultbridgeError, Misconfigured, Transient
from tests.adapters.stubs import client_error

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("ConditionalCheckFailedException", 400, Conflict),
        ("TransactionConflictException", 400, Conflict),
        ("ProvisionedThroughputExceededException", 400, Transient),
        ("ThrottlingException", 400, Transient),
        ("RequestLimitExceeded", 503, Transient),
        ("SlowDown", 503, Transient),
        ("TransactionInProgressException", 400, Transient),
        ("SomethingNew", 500, Transient),
        ("SomethingNew", 429, Transient),
        ("SomethingNew", 400, Misconfigured),
        ("AccessDeniedException", 400, Misconfigured),
        ("ResourceNotFoundException", 400, Misconfigured),
        ("ValidationException", 400, Misconfigured),
        ("ExpiredTokenException", 400, Misconfigured),
    ],
)
def test_an_error_response_becomes_the_matching_error(code: str, status: int, kind: type[FaultbridgeError]) -> None:
    error = translate(client_error(code, "why", status), "reading")
    assert type(error) is kind
    assert str(error) == f"reading: {code}: why"


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (EndpointConnectionError(endpoint_url=URL), Transient),
        (ConnectTimeoutError(endpoint_url=URL), Transient),
        (ReadTimeoutError(endpoint_url=URL), Transient),
        (ResponseParserError("<html>"), Transient),
        (NoCredentialsError(), Misconfigured),
        (NoRegionError(), Misconfigured),
        (ParamValidationError(report="x"), Misconfigured),
        (BotoCoreError(), Misconfigured),
    ],
)
def test_a_lost_response_is_transient_and_a_bad_setting_is_misconfigured(
    cause: Exception, kind: type[FaultbridgeError]
) -> None:
    with pytest.raises(kind) as raised, translated("reading"):
        raise cause
    assert raised.value.__cause__ is cause


@pytest.mark.parametrize(
    ("cause", "settings"),
    [(NoRegionError(), ("AWS_REGION", "--region")), (NoCredentialsError(), ("AWS_PROFILE", "--profile"))],
)
def test_a_missing_setting_is_named_without_the_words_of_boto(cause: Exception, settings: tuple[str, ...]) -> None:
    text = str(translate(cause, "reading"))
    assert str(cause) not in text
    assert all(one in text for one in settings)


def test_other_errors_are_not_converted() -> None:
    with pytest.raises(KeyError), translated("reading"):
        raise KeyError
