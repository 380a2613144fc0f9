"""Convert the errors of orchestrators and job callbacks to failed `CallResult`s."""

from __future__ import annotations

from collections.abc import Callable

from faultbridge.model.errors import FaultbridgeError, Transient
from faultbridge.record.ports import CallResult, ProviderFailure


def result_of(
    action: Callable[[], CallResult],
    failure_of: Callable[[FaultbridgeError], ProviderFailure] = lambda _: ProviderFailure.PERMISSION_DENIED,
) -> CallResult:
    """Run `action`, and return its result; a FaultbridgeError becomes a failed result.

    `action` changes a node or a job in an external system. A Transient error becomes TIMEOUT with `no_response` set.
    `failure_of` returns the failure for any other FaultbridgeError; by default, this failure is PERMISSION_DENIED.
    """
    try:
        return action()
    except Transient as error:
        return CallResult(ProviderFailure.TIMEOUT, str(error), no_response=True)
    except FaultbridgeError as error:
        return CallResult(failure_of(error), str(error))
