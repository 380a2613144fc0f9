"""Terminating an instance that its Auto Scaling group no longer has.

AWS: `TerminateInstanceInAutoScalingGroup` answers `ValidationError`.
moto: 500 with a page of HTML, which clients take for an outage and try again.
Here: the error of AWS.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

TERMINATE = "moto.autoscaling.models:AutoScalingBackend|terminate_instance"
ERROR = "moto.autoscaling.exceptions:ValidationError"


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (TERMINATE, ERROR)


def is_open() -> bool:
    """Whether the emulator still trips over an instance that it does not find."""
    return "next(" in inspect.getsource(patch.resolve(TERMINATE))


def apply() -> None:
    """Answer with AWS's error."""
    patch.replace(TERMINATE, _with_an_answer)


def _with_an_answer(terminate: Callable[..., Any]) -> Callable[..., Any]:
    def terminate_instance(backend: Any, instance_id: str, should_decrement: bool) -> Any:  # noqa: ANN401, FBT001 - moto's signature
        groups = backend.autoscaling_groups.values()
        if not any(state.instance.id == instance_id for group in groups for state in group.instance_states):
            text = f"Instance Id not found - No managed instance found for instance ID: {instance_id}"
            raise patch.resolve(ERROR)(text)
        return terminate(backend, instance_id, should_decrement)

    return terminate_instance
