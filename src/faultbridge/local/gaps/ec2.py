"""Patches that make moto's EC2 behave as on AWS: launches with failures, fleets, and lists that it lacks.

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

`fleet_launches`
AWS: instance types are tried in the order of their priority. The response lists the types that could not be launched,
and is not an error. A repeated request with the same client token returns the first response.
moto: only the first type is launched, a failed launch is an error of the call, and the client token is ignored.
Here: types, failed launches and client tokens are treated as on AWS. Client tokens are forgotten when the compute plane
stops.

`capacity_reservations`
AWS: `DescribeCapacityReservations` lists reservations by their ids or by filters, with their free instances.
moto: the call is not implemented and returns HTTP 500.
Here: the call lists the fake reservations in `RESERVATIONS`, which is empty by default. Launches do not use them.

`instance_topology`
AWS: `DescribeInstanceTopology` lists the network switches above an instance of a supported type.
moto: the call is not implemented and returns HTTP 500.
Here: the running instances of all zones are numbered in the order of their ids. In each group of four, the instances of
the same zone are under one fake switch.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from faultbridge.local.gaps.patching import Gap, missing_method, resolve, source_has, source_lacks, wrap
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


def _with_limited_capacity(run: Callable[..., Any], backend: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - moto's types
    instance_type, zone = _requested_type(backend, options), options.get("placement") or ""
    if not FAULTS.has_capacity(instance_type, zone):
        text = f"We currently do not have sufficient {instance_type} capacity in the zone you requested ({zone})."
        raise resolve(ERROR)(NO_CAPACITY, text)
    reservation = run(backend, *arguments, **options)
    for instance in reservation.instances:
        FAULTS.on_launch(instance.id)
    return reservation


def _requested_type(backend: Any, options: dict[str, Any]) -> str:  # noqa: ANN401 - moto's backend
    if options.get("launch_template") and options.get("is_instance_type_default"):
        template = backend._get_template_from_args(options["launch_template"]).data
        return str(template.get("InstanceType", options.get("instance_type")))
    return str(options.get("instance_type"))


_seen: dict[tuple[str, str, str], tuple[str, Any]] = {}


def _with_client_tokens(run: Callable[..., Any], backend: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - moto's types
    token = options.get("client_token")
    if not token or token == _NO_TOKEN:
        return run(backend, *arguments, **options)
    key = (backend.account_id, backend.region_name, token)
    parameters = repr((arguments, sorted(options.items())))
    first_parameters, reservation = _seen.get(key, ("", None))
    if reservation is None or reservation.id not in backend.reservations:
        reservation = run(backend, *arguments, **options)
        _seen[key] = (parameters, reservation)
    elif first_parameters != parameters:
        raise resolve(ERROR)("IdempotentParameterMismatch", "the token was used with other parameters")
    return reservation


def _with_launch_faults(run: Callable[..., Any], backend: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - moto's types
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
    lambda: wrap(RUN, _with_limited_capacity),
)


CREATE = "moto.ec2.responses.fleets:Fleets|create_fleet"
BACKEND = "moto.ec2.models.fleets:FleetsBackend|create_fleet"
RESULT = "moto.core.responses:ActionResult"
FLEET_ID = "moto.ec2.utils:random_fleet_id"

INSTANT = "instant"
Document = dict[str, Any]


def _ignores_tokens_and_errors() -> bool:
    source = inspect.getsource(resolve(CREATE))
    return "ClientToken" not in source and "Errors" not in source


_answers: dict[tuple[str, str, str], tuple[str, Document]] = {}


def _as_on_aws(create: Callable[..., Any], response: Any) -> Any:  # noqa: ANN401 - moto's types
    if response._get_param("Type") != INSTANT:
        return create(response)
    backend, request = response.ec2_backend, _read_request(response)
    token = (backend.account_id, backend.region_name, response._get_param("ClientToken") or repr(object()))
    first_request, answer = _answers.get(token, (repr(request), {}))
    if first_request != repr(request):
        raise resolve(ERROR)("IdempotentParameterMismatch", "the token was used with other parameters")
    _answers[token] = repr(request), answer or _launch(backend, request)
    return resolve(RESULT)(_answers[token][1])


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
    lambda: wrap(CREATE, _as_on_aws),
)


RESPONSE = "moto.ec2.responses:EC2Response"
FIELDS = {
    "state": "State",
    "instance-match-criteria": "InstanceMatchCriteria",
    "instance-type": "InstanceType",
    "availability-zone": "AvailabilityZone",
    "tenancy": "Tenancy",
    "instance-platform": "InstancePlatform",
}
"""The field of a reservation that each supported filter compares."""

RESERVATIONS: list[dict[str, Any]] = []


def _describe_capacity_reservations(response: Any) -> Any:  # noqa: ANN401 - moto's types
    wanted = set(response._get_param("CapacityReservationIds", []))
    filters: Mapping[str, list[str]] = response._filters_from_querystring()
    found = [one for one in RESERVATIONS if not wanted or one["CapacityReservationId"] in wanted]
    listed = [one for one in found if all(one.get(FIELDS[name]) in values for name, values in filters.items())]
    return resolve(RESULT)({"CapacityReservations": listed})


INSTANCES_PER_SWITCH = 4


def _describe_instance_topology(response: Any) -> Any:  # noqa: ANN401 - moto's types
    running = sorted(
        (one for one in response.ec2_backend.all_instances() if one.state == "running"), key=lambda one: str(one.id)
    )
    wanted = set(response._get_param("InstanceIds", []))
    topologies = [_topology(instance, number // INSTANCES_PER_SWITCH) for number, instance in enumerate(running)]
    found = [topology for topology in topologies if not wanted or topology["InstanceId"] in wanted]
    return resolve(RESULT)({"Instances": found})


def _topology(instance: Any, switch: int) -> dict[str, Any]:  # noqa: ANN401 - moto's types
    zone = instance.placement.zone
    return {
        "InstanceId": instance.id,
        "InstanceType": instance.instance_type,
        "AvailabilityZone": zone,
        "ZoneId": f"{zone}-id",
        "NetworkNodes": [f"nn-{zone}-top", f"nn-{zone}-middle", f"nn-{zone}-{switch:04d}"],
    }


INSTANCE_TOPOLOGY = missing_method("instance_topology", RESPONSE, _describe_instance_topology, RESULT)
CAPACITY_RESERVATIONS = missing_method("capacity_reservations", RESPONSE, _describe_capacity_reservations, RESULT)
GAPS = (
    CAPACITY,
    Gap("client_tokens", (RUN, ERROR), source_lacks(RUN, "client_token"), lambda: wrap(RUN, _with_client_tokens)),
    Gap(
        "launches",
        (RUN, ERROR, STATE, START, CREATED),
        source_has(CREATED, 'InstanceState("running", 16)'),
        lambda: wrap(RUN, _with_launch_faults),
    ),
    FLEET_LAUNCHES,
    INSTANCE_TOPOLOGY,
    CAPACITY_RESERVATIONS,
)
