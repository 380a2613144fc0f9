"""Converts the error of a call that changes something to a failed result, in one place for all adapters."""

from __future__ import annotations

from collections.abc import Callable

from faultbridge.errors import FaultbridgeError, Transient
from faultbridge.ports import CallResult, ProviderFailure


def result_of(
    action: Callable[[], CallResult],
    failure_of: Callable[[FaultbridgeError], ProviderFailure] = lambda _: ProviderFailure.PERMISSION_DENIED,
) -> CallResult:
    """Return the result of an action; an error becomes a failed result.

    Transient becomes TIMEOUT with `no_response` set; `failure_of` gives the failure for any other error.
    """
    try:
        return action()
    except Transient as error:
        return CallResult(ProviderFailure.TIMEOUT, str(error), no_response=True)
    except FaultbridgeError as error:
        return CallResult(failure_of(error), str(error))
