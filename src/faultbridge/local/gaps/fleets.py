"""Patch that makes moto's EC2 fleets of type `instant` behave as on AWS.

`fleet_launches`
AWS: instance types are tried in the order of their priority. The response lists the types that could not be launched,
and is not an error. A repeated request with the same client token returns the first response.
moto: only the first type is launched, a failed launch is an error of the call, and the client token is ignored.
Here: types, failed launches and client tokens are treated as on AWS. Client tokens are forgotten when the compute plane
stops.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from faultbridge.local.gaps.patching import Gap, replace, resolve

CREATE = "moto.ec2.responses.fleets:Fleets|create_fleet"
BACKEND = "moto.ec2.models.fleets:FleetsBackend|create_fleet"
ERROR = "moto.ec2.exceptions:EC2ClientError"
RESULT = "moto.core.responses:ActionResult"
FLEET_ID = "moto.ec2.utils:random_fleet_id"

INSTANT = "instant"
Document = dict[str, Any]


def _ignores_tokens_and_errors() -> bool:
    source = inspect.getsource(resolve(CREATE))
    return "ClientToken" not in source and "Errors" not in source


def _as_on_aws(create: Callable[..., Any]) -> Callable[..., Any]:
    answers: dict[tuple[str, str, str], tuple[str, Document]] = {}

    def create_fleet(response: Any) -> Any:  # noqa: ANN401 - moto's types
        if response._get_param("Type") != INSTANT:
            return create(response)
        backend, request = response.ec2_backend, _read_request(response)
        token = (backend.account_id, backend.region_name, response._get_param("ClientToken") or repr(object()))
        first_request, answer = answers.get(token, (repr(request), {}))
        if first_request != repr(request):
            raise resolve(ERROR)("IdempotentParameterMismatch", "the token was used with other parameters")
        answers[token] = repr(request), answer or _launch(backend, request)
        return resolve(RESULT)(answers[token][1])

    return create_fleet


def _read_request(response: Any) -> Document:  # noqa: ANN401 - moto's response
    return {
        "configs": response._get_param("LaunchTemplateConfigs", []),
        "capacity": response._get_param("TargetCapacitySpecification", {}),
        "tags": response._get_param("TagSpecifications", []),
    }


def _launch(backend: Any, request: Document) -> Document:  # noqa: ANN401 - moto's backend
    errors = []
    for config in sorted(
        _split_overrides(request["configs"]), key=lambda one: float(one["Overrides"][0].get("Priority", 0))
    ):
        try:
            fleet = _create_fleet(backend, config, request)
        except resolve(ERROR) as error:
            texts = {"ErrorCode": error.code, "ErrorMessage": error.message}
            errors.append({"Lifecycle": "on-demand", **_template_of(config), **texts})
        else:
            return {"FleetId": fleet.id, "Errors": errors, "Instances": fleet.instances}
    return {"FleetId": resolve(FLEET_ID)(), "Errors": errors, "Instances": []}


def _create_fleet(backend: Any, config: Document, request: Document) -> Any:  # noqa: ANN401 - moto's types
    return backend.create_fleet(
        on_demand_options={},
        spot_options={},
        target_capacity_specification=request["capacity"],
        launch_template_configs=[config],
        excess_capacity_termination_policy=None,
        replace_unhealthy_instances=None,
        terminate_instances_with_expiration=None,
        fleet_type=INSTANT,
        valid_from=None,
        valid_until=None,
        tag_specifications=request["tags"],
    )


def _split_overrides(configs: list[Document]) -> Iterator[Document]:
    """Yield one configuration per launch template override, so that each type is tried separately."""
    for config in configs:
        for override in config.get("Overrides") or [{}]:
            yield {**config, "Overrides": [override]}


def _template_of(config: Document) -> Document:
    specification, override = config["LaunchTemplateSpecification"], config["Overrides"][0]
    return {"LaunchTemplateAndOverrides": {"LaunchTemplateSpecification": specification, "Overrides": override}}


FLEET_LAUNCHES = Gap(
    "fleet_launches",
    (CREATE, BACKEND, ERROR, RESULT, FLEET_ID),
    _ignores_tokens_and_errors,
    lambda: replace(CREATE, _as_on_aws),
)
GAPS = (FLEET_LAUNCHES,)
