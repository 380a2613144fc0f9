"""Convert the errors of orchestrators and job callbacks to failed `CallResult`s."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import FaultbridgeError, Transient
from faultbridge.record.ports.compute import CallResult

P = ParamSpec("P")


def errors_become_results(
    failure_of: Callable[[FaultbridgeError], ProviderFailure] = lambda _: ProviderFailure.PERMISSION_DENIED,
) -> Callable[[Callable[P, CallResult]], Callable[P, CallResult]]:
    """Decorate a change of a node or job elsewhere: a FaultbridgeError becomes a failed result.

    A Transient error becomes TIMEOUT with `no_response` set. `failure_of` returns the failure for any other error.
    """

    def decorate(action: Callable[P, CallResult]) -> Callable[P, CallResult]:
        @wraps(action)
        def act(*args: P.args, **kwargs: P.kwargs) -> CallResult:
            try:
                return action(*args, **kwargs)
            except Transient as error:
                return CallResult(ProviderFailure.TIMEOUT, str(error), no_response=True)
            except FaultbridgeError as error:
                return CallResult(failure_of(error), str(error))

        return act

    return decorate
