"""Patches that make moto's EC2 launches behave as on AWS, including failures.

`capacity`
AWS: `InsufficientInstanceCapacity` occurs for an instance type in a zone. For large GPU instances, it can last for
hours.
moto: capacity is always available.
Here: a launch is refused if `servers.fault_injection` removed the capacity of its type and zone.

`client_tokens`
AWS: a second `RunInstances` with the same `ClientToken` and parameters returns the first reservation. With other
parameters, it fails with `IdempotentParameterMismatch`.
moto: the token is stored, and a second instance is launched.
Here: tokens have the same effect as on AWS. They are forgotten when the compute plane stops.

`launches`
AWS: an instance is `pending` for minutes. Some launches fail, and the Auto Scaling group retries them. Some instances
have a bad GPU from the start.
moto: every launch succeeds immediately.
Here: `servers.fault_injection` selects faults at random from a seed; by default, it selects none. A slow instance is
`pending` for some seconds, a group retries a failed launch after a delay, and a bad instance fails its diagnostics.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps.patching import Gap, replace, resolve, source_has, source_lacks
from faultbridge.local.servers.fault_injection import (
    DIAGNOSTICS_FAILED,
    FAULTS,
    LAUNCH_FAULTS,
    CommandOutput,
    failed_diagnostics,
)

RUN = "moto.ec2.models:EC2Backend|run_instances"
TEMPLATE = "moto.ec2.models:EC2Backend|_get_template_from_args"
ERROR = "moto.ec2.exceptions:EC2ClientError"
GROUPS = "moto.autoscaling.models:autoscaling_backends"
STATE = "moto.ec2.models.instances:InstanceState"
START = "moto.ec2.models.instances:Instance|start"
CREATED = "moto.ec2.models.instances:Instance|__init__"

NO_CAPACITY = "InsufficientInstanceCapacity"
LAUNCH_FAILED = "Server.InternalError"

# The value that moto uses for a missing token.
_NO_TOKEN = "ABCDE"  # noqa: S105 - no secret
_PENDING = ("pending", 0)


def retry_scaling_groups() -> None:
    """Make every Auto Scaling group launch its missing instances, as AWS does automatically."""
    for account in resolve(GROUPS).values():
        for backend in account.values():
            for group in backend.autoscaling_groups.values():
                group.set_desired_capacity(group.desired_capacity)


def _with_limited_capacity(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_instances(backend: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - moto's types
        instance_type, zone = _requested_type(backend, options), options.get("placement") or ""
        if not FAULTS.has_capacity(instance_type, zone):
            text = f"We currently do not have sufficient {instance_type} capacity in the zone you requested ({zone})."
            raise resolve(ERROR)(NO_CAPACITY, text)
        reservation = run(backend, *arguments, **options)
        for instance in reservation.instances:
            FAULTS.on_launch(instance.id)
        return reservation

    return run_instances


def _requested_type(backend: Any, options: dict[str, Any]) -> str:  # noqa: ANN401 - moto's backend
    if options.get("launch_template") and options.get("is_instance_type_default"):
        template = backend._get_template_from_args(options["launch_template"]).data
        return str(template.get("InstanceType", options.get("instance_type")))
    return str(options.get("instance_type"))


def _with_client_tokens(run: Callable[..., Any]) -> Callable[..., Any]:
    seen: dict[tuple[str, str, str], tuple[str, Any]] = {}

    def run_instances(backend: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - moto's types
        token = options.get("client_token")
        if not token or token == _NO_TOKEN:
            return run(backend, *arguments, **options)
        key = (backend.account_id, backend.region_name, token)
        parameters = repr((arguments, sorted(options.items())))
        first_parameters, reservation = seen.get(key, ("", None))
        if reservation is None or reservation.id not in backend.reservations:
            reservation = run(backend, *arguments, **options)
            seen[key] = (parameters, reservation)
        elif first_parameters != parameters:
            raise resolve(ERROR)("IdempotentParameterMismatch", "the token was used with other parameters")
        return reservation

    return run_instances


def _with_launch_faults(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_instances(backend: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - moto's types
        fault, rates = LAUNCH_FAULTS.next(), LAUNCH_FAULTS.rates
        if fault.fails:
            _after(rates.retry_seconds, retry_scaling_groups)
            raise resolve(ERROR)(LAUNCH_FAILED, "Internal error on launch (injected fault)")
        reservation = run(backend, *arguments, **options)
        for instance in reservation.instances:
            if fault.bad:
                FAULTS.set_output(instance.id, CommandOutput(DIAGNOSTICS_FAILED, failed_diagnostics()))
            if fault.slow:
                _delay(instance, rates.slow_seconds)
        return reservation

    return run_instances


def _delay(instance: Any, seconds: float) -> None:  # noqa: ANN401 - moto's instance
    instance._state = resolve(STATE)(*_PENDING)

    def start() -> None:
        if instance._state.name == _PENDING[0]:
            instance.start()

    _after(seconds, start)


def _after(seconds: float, action: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


CAPACITY = Gap(
    "capacity",
    (RUN, TEMPLATE, ERROR, GROUPS),
    source_lacks(RUN, NO_CAPACITY),
    lambda: replace(RUN, _with_limited_capacity),
)
GAPS = (
    CAPACITY,
    Gap("client_tokens", (RUN, ERROR), source_lacks(RUN, "client_token"), lambda: replace(RUN, _with_client_tokens)),
    Gap(
        "launches",
        (RUN, ERROR, STATE, START, CREATED),
        source_has(CREATED, 'InstanceState("running", 16)'),
        lambda: replace(RUN, _with_launch_faults),
    ),
)
