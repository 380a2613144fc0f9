"""Instance types that are not to be had.

AWS: `InsufficientInstanceCapacity`, by type and zone, for hours where large GPU instances are concerned.
moto: there is always capacity.
Here: a fake scarcity by the script (`compute_script`): a launch of a type that is scripted away is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from faultbridge.local.compute_script import SCRIPT
from faultbridge.local.gaps import names as patch

RUN = "moto.ec2.models:EC2Backend|run_instances"
TEMPLATE = "moto.ec2.models:EC2Backend|_get_template_from_args"
ERROR = "moto.ec2.exceptions:EC2ClientError"
GROUPS = "moto.autoscaling.models:autoscaling_backends"

CODE = "InsufficientInstanceCapacity"


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (RUN, TEMPLATE, ERROR, GROUPS)


def is_open() -> bool:
    """Whether the emulator still never refuses a launch."""
    return CODE not in inspect.getsource(patch.resolve(RUN))


def apply() -> None:
    """Refuse what is scripted away, and tell the script of each launch."""
    patch.replace(RUN, _where_capacity_is)


def refill() -> None:
    """Let every Auto Scaling group try again, as AWS does by itself while instances are missing."""
    for account in patch.resolve(GROUPS).values():
        for backend in account.values():
            for group in backend.autoscaling_groups.values():
                group.set_desired_capacity(group.desired_capacity)


def _where_capacity_is(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_instances(backend: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - moto's types
        instance_type, zone = _type_asked_for(backend, options), options.get("placement") or ""
        if not SCRIPT.has_capacity(instance_type, zone):
            text = f"We currently do not have sufficient {instance_type} capacity in the zone you requested ({zone})."
            raise patch.resolve(ERROR)(CODE, text)
        reservation = run(backend, *arguments, **options)
        for instance in reservation.instances:
            SCRIPT.launched(instance.id)
        return reservation

    return run_instances


def _type_asked_for(backend: Any, options: dict[str, Any]) -> str:  # noqa: ANN401 - moto's backend
    if options.get("launch_template") and options.get("is_instance_type_default"):
        template = backend._get_template_from_args(options["launch_template"]).data
        return str(template.get("InstanceType", options.get("instance_type")))
    return str(options.get("instance_type"))
