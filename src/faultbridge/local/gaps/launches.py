"""Launches that are slow, fail, or bring a bad instance.

AWS: an instance is `pending` for minutes; a launch fails at times and its Auto Scaling group tries again; one instance
in so many has a bad GPU from its first moment.
moto: every launch is done at once and good.
Here: a fake weather, drawn from a seed (`compute_weather`); calm unless told otherwise. A slow instance is `pending`
for so long, a group whose launch failed tries again after a while, a bad one fails its diagnostics.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from typing import Any

from faultbridge.local.compute_script import SCRIPT, CommandOutput, failed_diagnostics
from faultbridge.local.compute_weather import WEATHER
from faultbridge.local.gaps import capacity
from faultbridge.local.gaps import names as patch

RUN = capacity.RUN
ERROR = capacity.ERROR
STATE = "moto.ec2.models.instances:InstanceState"
START = "moto.ec2.models.instances:Instance|start"
LAUNCHED = "moto.ec2.models.instances:Instance|__init__"

CODE = "Server.InternalError"
DIAGNOSTICS_FAILED = 226
_PENDING = ("pending", 0)


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (RUN, ERROR, STATE, START, LAUNCHED)


def is_open() -> bool:
    """Whether the emulator's instances are still running from their first moment."""
    return 'InstanceState("running", 16)' in inspect.getsource(patch.resolve(LAUNCHED))


def apply() -> None:
    """Let the weather befall each launch."""
    patch.replace(RUN, _in_the_weather)


def _in_the_weather(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_instances(backend: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - moto's types
        fate, climate = WEATHER.next(), WEATHER.climate
        if fate.fails:
            _later(climate.again_seconds, capacity.refill)
            raise patch.resolve(ERROR)(CODE, "Internal error on launch (scripted weather)")
        reservation = run(backend, *arguments, **options)
        for instance in reservation.instances:
            if fate.bad:
                SCRIPT.set_output(instance.id, CommandOutput(DIAGNOSTICS_FAILED, failed_diagnostics()))
            if fate.slow:
                _delay(instance, climate.slow_seconds)
        return reservation

    return run_instances


def _delay(instance: Any, seconds: float) -> None:  # noqa: ANN401 - moto's instance
    instance._state = patch.resolve(STATE)(*_PENDING)

    def arrive() -> None:
        if instance._state.name == _PENDING[0]:
            instance.start()

    _later(seconds, arrive)


def _later(seconds: float, act: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
