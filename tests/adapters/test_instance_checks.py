"""The checks of an EC2 instance: the answers of EC2 and SSM, and what each service's failure leaves unknown."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.stub import Stubber

from faultbridge.adapters.ec2.instances import checks_of
from faultbridge.record.ports import CheckResult, InstanceChecks
from tests.adapters.stubs import stubbed

ID = "i-0123456789abcdef0"
PASSED, FAILED, UNKNOWN = CheckResult.PASSED, CheckResult.FAILED, CheckResult.UNKNOWN


def status(system: str, instance: str) -> dict[str, Any]:
    return {
        "InstanceStatuses": [
            {"InstanceId": ID, "SystemStatus": {"Status": system}, "InstanceStatus": {"Status": instance}}
        ]
    }


def checks(ec2: dict[str, Any] | None, ssm: dict[str, Any] | None) -> InstanceChecks:
    """Return the checks that these answers give; None is a refused call."""
    with stubbed("ec2") as (clients, stub), Stubber(clients.ssm) as other:
        _answer(stub, "describe_instance_status", {"InstanceIds": [ID]}, ec2)
        _answer(other, "describe_instance_information", {"Filters": [{"Key": "InstanceIds", "Values": [ID]}]}, ssm)
        return checks_of(clients, ID)


def _answer(stub: Stubber, call: str, expected: dict[str, Any], answer: dict[str, Any] | None) -> None:
    if answer is None:
        stub.add_client_error(call, "AccessDeniedException", http_status_code=400, expected_params=expected)
    else:
        stub.add_response(call, answer, expected)


NOTHING: dict[str, Any] = {"InstanceStatuses": []}
UNMANAGED: dict[str, Any] = {"InstanceInformationList": []}


def ping(value: str) -> dict[str, Any]:
    return {"InstanceInformationList": [{"InstanceId": ID, "PingStatus": value}]}


@pytest.mark.parametrize(
    ("ec2", "ssm", "found"),
    [
        (status("ok", "ok"), ping("Online"), InstanceChecks(PASSED, PASSED, PASSED)),
        (status("impaired", "ok"), ping("ConnectionLost"), InstanceChecks(FAILED, PASSED, FAILED)),
        (status("ok", "impaired"), ping("Online"), InstanceChecks(PASSED, FAILED, PASSED)),
        (status("insufficient-data", "initializing"), ping("Inactive"), InstanceChecks()),
        (NOTHING, UNMANAGED, InstanceChecks()),
        (None, ping("Online"), InstanceChecks(agent=PASSED)),
        (status("ok", "impaired"), None, InstanceChecks(PASSED, FAILED, UNKNOWN)),
    ],
    ids=["healthy", "host", "system", "no result yet", "not listed", "no answer of EC2", "no answer of SSM"],
)
def test_the_checks_are_those_of_ec2_and_of_the_ssm_agent(
    ec2: dict[str, Any] | None, ssm: dict[str, Any] | None, found: InstanceChecks
) -> None:
    assert checks(ec2, ssm) == found
