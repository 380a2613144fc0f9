"""Role ids of instances: what SQS reports as sender is the id of the role in the instance profile."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.adapters.ec2.inventory import InstanceRoles
from tests.adapters.stubs import stubbed

PROFILE = {"IamInstanceProfile": {"Arn": "arn:aws:iam::111122223333:instance-profile/path/gpu-nodes", "Id": "AIPA"}}


def profile(*roles: str) -> dict[str, Any]:
    described = {"Path": "/", "CreateDate": 0, "Arn": "arn:aws:iam::111122223333:role/gpu-nodes"}
    return {
        "InstanceProfile": {
            **described,
            "InstanceProfileName": "gpu-nodes",
            "InstanceProfileId": "AIPAEXAMPLEEXAMPLE",
            "Roles": [{**described, "RoleName": "gpu-nodes", "RoleId": role} for role in roles],
        }
    }


def backed(*instances: str) -> list[dict[str, Any]]:
    return [{"InstanceId": one, **PROFILE} for one in instances]


def test_the_role_of_a_profile_is_read_once() -> None:
    roles = InstanceRoles()
    with stubbed("iam") as (clients, stub):
        stub.add_response("get_instance_profile", profile("AROAEXAMPLEEXAMPLE"), {"InstanceProfileName": "gpu-nodes"})
        assert roles.role_ids(clients, backed("i-1", "i-2")) == dict.fromkeys(["i-1", "i-2"], "AROAEXAMPLEEXAMPLE")
        assert roles.role_ids(clients, backed("i-3")) == {"i-3": "AROAEXAMPLEEXAMPLE"}


def test_an_instance_without_a_profile_and_a_profile_without_a_role_have_no_role_id() -> None:
    with stubbed("iam") as (clients, stub):
        stub.add_response("get_instance_profile", profile())
        assert InstanceRoles().role_ids(clients, [{"InstanceId": "i-0"}, *backed("i-1")]) == {}


def test_a_missing_permission_is_logged_once_and_tried_again_at_the_next_sync(caplog: pytest.LogCaptureFixture) -> None:
    roles = InstanceRoles()
    with stubbed("iam") as (clients, stub):
        stub.add_client_error("get_instance_profile", "AccessDenied", http_status_code=403)
        stub.add_response("get_instance_profile", profile("AROAEXAMPLEEXAMPLE"))
        assert roles.role_ids(clients, backed("i-1", "i-2", "i-3")) == {}
        assert caplog.text.count("node_role_unknown") == 1
        assert roles.role_ids(clients, backed("i-1")) == {"i-1": "AROAEXAMPLEEXAMPLE"}
