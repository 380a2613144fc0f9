"""Failure codes for the errors of AWS calls that change instances, groups or volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from botocore.exceptions import ClientError, ConnectTimeoutError, EndpointConnectionError, HTTPClientError
from botocore.parsers import ResponseParserError

from faultbridge.adapters.aws.errors import code_of, is_outage, is_throttle, message_of
from faultbridge.ports import ProviderFailure

FAILURES: Mapping[str, ProviderFailure] = {
    "AccessDenied": ProviderFailure.PERMISSION_DENIED,
    "AccessDeniedException": ProviderFailure.PERMISSION_DENIED,
    "AuthFailure": ProviderFailure.PERMISSION_DENIED,
    "OperationNotPermitted": ProviderFailure.PERMISSION_DENIED,
    "UnauthorizedOperation": ProviderFailure.PERMISSION_DENIED,
    "InsufficientCapacity": ProviderFailure.CAPACITY,
    "InsufficientFreeAddressesInSubnet": ProviderFailure.CAPACITY,
    "InsufficientHostCapacity": ProviderFailure.CAPACITY,
    "InsufficientInstanceCapacity": ProviderFailure.CAPACITY,
    "InsufficientReservedInstanceCapacity": ProviderFailure.CAPACITY,
    "InstanceLimitExceeded": ProviderFailure.CAPACITY,
    "MaxSpotInstanceCountExceeded": ProviderFailure.CAPACITY,
    "VcpuLimitExceeded": ProviderFailure.CAPACITY,
    "ReservationCapacityExceeded": ProviderFailure.CAPACITY,
    "UnfulfillableCapacity": ProviderFailure.CAPACITY,
    "IdempotentParameterMismatch": ProviderFailure.AMBIGUOUS,
    "InvalidInstanceID.NotFound": ProviderFailure.NOT_FOUND,
    "InvalidLaunchTemplateId.NotFound": ProviderFailure.NOT_FOUND,
    "InvalidLaunchTemplateName.NotFoundException": ProviderFailure.NOT_FOUND,
    "IncorrectInstanceState": ProviderFailure.CONFLICT,
    "ResourceContention": ProviderFailure.CONFLICT,
    "ScalingActivityInProgress": ProviderFailure.CONFLICT,
}

# EC2 Auto Scaling uses one code, ValidationError, for many failures; its message distinguishes them. The first fragment
# that occurs in the message decides.
VALIDATION_MESSAGES: Sequence[tuple[str, ProviderFailure]] = (
    ("not found", ProviderFailure.NOT_FOUND),
    ("no managed instance", ProviderFailure.NOT_FOUND),
    ("not part of auto scaling group", ProviderFailure.NOT_FOUND),
    ("protect", ProviderFailure.PERMISSION_DENIED),
    ("not authorized", ProviderFailure.PERMISSION_DENIED),
    ("capacity", ProviderFailure.CAPACITY),
    ("lifecyclestate", ProviderFailure.CONFLICT),
    ("is not in", ProviderFailure.CONFLICT),
)


def failure_of(error: BaseException | None) -> ProviderFailure:
    """Return the failure code for the error of an AWS call that changes something.

    TIMEOUT means that no connection was established. AMBIGUOUS means that the change may have been made. An unknown
    error, or None, becomes PROVIDER_ERROR.
    """
    if isinstance(error, ClientError):
        return _client_failure(error)
    if isinstance(error, (ConnectTimeoutError, EndpointConnectionError)):
        return ProviderFailure.TIMEOUT
    if isinstance(error, (HTTPClientError, ResponseParserError)):
        return ProviderFailure.AMBIGUOUS
    return ProviderFailure.PROVIDER_ERROR


def _client_failure(error: ClientError) -> ProviderFailure:
    if is_throttle(error):
        return ProviderFailure.THROTTLED
    code, message = code_of(error), message_of(error).lower()
    if code in FAILURES:
        return FAILURES[code]
    if is_outage(error):
        return ProviderFailure.AMBIGUOUS
    if code == "ValidationError":
        found = (failure for fragment, failure in VALIDATION_MESSAGES if fragment in message)
        return next(found, ProviderFailure.PROVIDER_ERROR)
    return ProviderFailure.PROVIDER_ERROR
