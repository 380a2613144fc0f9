"""Which instances a command of Systems Manager goes to.

AWS: the instances that were named; one that is unknown or gone is refused (`InvalidInstanceId`).
moto: a command without targets goes to every instance there is, and an unknown one is accepted.
Here: only those that were named, and only running ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

TARGETS = "moto.ssm.models:Command|_get_instance_ids_from_targets"
SEND = "moto.ssm.models:SimpleSystemManagerBackend|send_command"
ERROR = "moto.ssm.exceptions:SSMException"
EC2 = "moto.ec2.models:ec2_backends"


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (TARGETS, SEND, ERROR, EC2)


def is_open() -> bool:
    """Whether the emulator still asks for all instances when no target is given."""
    return "if not" not in inspect.getsource(patch.resolve(TARGETS))


def apply() -> None:
    """Send to the named ones only."""
    patch.replace(TARGETS, _only_when_given)
    patch.replace(SEND, _to_running_instances)


def _only_when_given(find: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    return lambda command: find(command) if command.targets else []


def _to_running_instances(send: Callable[..., Any]) -> Callable[..., Any]:
    def send_command(backend: Any, **parameters: Any) -> Any:  # noqa: ANN401 - moto's types
        known = patch.resolve(EC2)[backend.account_id][backend.region_name]
        running = {instance.id for instance in known.all_instances() if instance.state == "running"}
        for instance_id in parameters["instance_ids"]:
            if instance_id not in running:
                message = f"Instances [[{instance_id}]] not in a valid state for account {backend.account_id}"
                raise patch.resolve(ERROR)("InvalidInstanceId", message)
        return send(backend, **parameters)

    return send_command
