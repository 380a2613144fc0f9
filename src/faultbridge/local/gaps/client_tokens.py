"""Launching twice with one client token.

AWS: a second `RunInstances` with the same `ClientToken` and parameters gives the first one's reservation, and
with other parameters `IdempotentParameterMismatch`.
moto: the token is stored and a second instance is launched.
Here: as on AWS, for as long as the compute plane lives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

RUN = "moto.ec2.models:EC2Backend|run_instances"
ERROR = "moto.ec2.exceptions:EC2ClientError"

# What moto puts in the place of a token that was not given.
_NO_TOKEN = "ABCDE"  # noqa: S105 - no secret


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (RUN, ERROR)


def is_open() -> bool:
    """Whether the emulator still does not look at the token."""
    return "client_token" not in inspect.getsource(patch.resolve(RUN))


def apply() -> None:
    """Remember tokens."""
    patch.replace(RUN, _once_a_token)


def _once_a_token(run: Callable[..., Any]) -> Callable[..., Any]:
    seen: dict[tuple[str, str, str], tuple[str, Any]] = {}

    def run_instances(backend: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - moto's types
        token = options.get("client_token")
        if not token or token == _NO_TOKEN:
            return run(backend, *arguments, **options)
        key, asked = (
            (backend.account_id, backend.region_name, token),
            repr((arguments, sorted(options.items()))),
        )
        before, reservation = seen.get(key, ("", None))
        if reservation is None or reservation.id not in backend.reservations:
            reservation = run(backend, *arguments, **options)
            seen[key] = (asked, reservation)
        elif before != asked:
            raise patch.resolve(ERROR)("IdempotentParameterMismatch", "the token was used with other parameters")
        return reservation

    return run_instances
