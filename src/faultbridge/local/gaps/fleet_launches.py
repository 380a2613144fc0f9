"""Launches by a fleet of type `instant`.

AWS: the types are tried by their priority, one after the other; those that were refused are listed in the answer, which
is none of an error. A client token belongs to its request, and a repetition has the first one's answer.
moto: the first type is launched, an error of the launch is an error of the call, and the token is not looked at.
Here: as on AWS, for as long as the compute plane lives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from faultbridge.local.gaps import names as patch

CREATE = "moto.ec2.responses.fleets:Fleets|create_fleet"
BACKEND = "moto.ec2.models.fleets:FleetsBackend|create_fleet"
ERROR = "moto.ec2.exceptions:EC2ClientError"
RESULT = "moto.core.responses:ActionResult"
FLEET_ID = "moto.ec2.utils:random_fleet_id"

INSTANT = "instant"
Told = dict[str, Any]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (CREATE, BACKEND, ERROR, RESULT, FLEET_ID)


def is_open() -> bool:
    """Whether the emulator still looks neither at the token nor past the first refusal."""
    source = inspect.getsource(patch.resolve(CREATE))
    return "ClientToken" not in source and "Errors" not in source


def apply() -> None:
    """Launch as AWS does."""
    patch.replace(CREATE, _as_aws_does)


def _as_aws_does(create: Callable[..., Any]) -> Callable[..., Any]:
    answered: dict[tuple[str, str, str], tuple[str, Told]] = {}

    def create_fleet(response: Any) -> Any:  # noqa: ANN401 - moto's types
        if response._get_param("Type") != INSTANT:
            return create(response)
        backend, asked = response.ec2_backend, _asked(response)
        token = (backend.account_id, backend.region_name, response._get_param("ClientToken") or repr(object()))
        before, told = answered.get(token, (repr(asked), {}))
        if before != repr(asked):
            raise patch.resolve(ERROR)("IdempotentParameterMismatch", "the token was used with other parameters")
        answered[token] = repr(asked), told or _launched(backend, asked)
        return patch.resolve(RESULT)(answered[token][1])

    return create_fleet


def _asked(response: Any) -> Told:  # noqa: ANN401 - moto's response
    return {
        "configs": response._get_param("LaunchTemplateConfigs", []),
        "capacity": response._get_param("TargetCapacitySpecification", {}),
        "tags": response._get_param("TagSpecifications", []),
    }


def _launched(backend: Any, asked: Told) -> Told:  # noqa: ANN401 - moto's backend
    errors = []
    for config in sorted(_one_by_one(asked["configs"]), key=_priority):
        try:
            fleet = _create(backend, config, asked)
        except patch.resolve(ERROR) as error:
            errors.append({"LaunchTemplateAndOverrides": _told(config), "Lifecycle": "on-demand", **_why(error)})
        else:
            return {"FleetId": fleet.id, "Errors": errors, "Instances": fleet.instances}
    return {"FleetId": patch.resolve(FLEET_ID)(), "Errors": errors, "Instances": []}


def _create(backend: Any, config: Told, asked: Told) -> Any:  # noqa: ANN401 - moto's types
    return backend.create_fleet(
        on_demand_options={},
        spot_options={},
        target_capacity_specification=asked["capacity"],
        launch_template_configs=[config],
        excess_capacity_termination_policy=None,
        replace_unhealthy_instances=None,
        terminate_instances_with_expiration=None,
        fleet_type=INSTANT,
        valid_from=None,
        valid_until=None,
        tag_specifications=asked["tags"],
    )


def _one_by_one(configs: list[Told]) -> Iterator[Told]:
    for config in configs:
        for override in config.get("Overrides") or [{}]:
            yield {**config, "Overrides": [override]}


def _priority(config: Told) -> float:
    return float(config["Overrides"][0].get("Priority", 0))


def _told(config: Told) -> Told:
    specification, override = config["LaunchTemplateSpecification"], config["Overrides"][0]
    return {"LaunchTemplateSpecification": specification, "Overrides": override}


def _why(error: Any) -> Told:  # noqa: ANN401 - moto's error
    return {"ErrorCode": error.code, "ErrorMessage": error.message}
