"""Role ids of instances: what SQS reports as sender is the id of the role in the instance profile."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.adapters.compute.instance_roles import InstanceRoles
from tests.adapters.stubs import stubbed

INSTANCE = {"IamInstanceProfile": {"Arn": "arn:aws:iam::111122223333:instance-profile/path/gpu-nodes", "Id": "AIPA"}}


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


def test_the_role_of_a_profile_is_read_once() -> None:
    roles = InstanceRoles()
    with stubbed("iam") as (clients, stub):
        stub.add_response("get_instance_profile", profile("AROAEXAMPLEEXAMPLE"), {"InstanceProfileName": "gpu-nodes"})
        assert [roles.role_id(clients, INSTANCE) for _ in range(3)] == ["AROAEXAMPLEEXAMPLE"] * 3


def test_an_instance_without_a_profile_and_a_profile_without_a_role_have_no_role_id() -> None:
    with stubbed("iam") as (clients, stub):
        stub.add_response("get_instance_profile", profile())
        assert InstanceRoles().role_id(clients, {}) is None
        assert InstanceRoles().role_id(clients, INSTANCE) is None


def test_a_missing_permission_is_logged_and_tried_again_at_the_next_sync(caplog: pytest.LogCaptureFixture) -> None:
    roles = InstanceRoles()
    with stubbed("iam") as (clients, stub):
        stub.add_client_error("get_instance_profile", "AccessDenied", http_status_code=403)
        stub.add_response("get_instance_profile", profile("AROAEXAMPLEEXAMPLE"))
        assert roles.role_id(clients, INSTANCE) is None
        assert "node_role_unknown" in caplog.text
        assert roles.role_id(clients, INSTANCE) == "AROAEXAMPLEEXAMPLE"
