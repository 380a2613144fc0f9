"""Expiry, backups and protection of a table made by CloudFormation.

AWS: `TimeToLiveSpecification` and `PointInTimeRecoverySpecification` of `AWS::DynamoDB::Table` are set.
MiniStack: both are dropped without a word, although its DynamoDB obeys the first when set through the API; and
`DeletionProtectionEnabled: "false"`, which is how a parameter says it, counts as true.
Here: the provisioner sets them, at creation and at each update, and reads booleans that are text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from faultbridge.local.gaps import names as patch

CREATE = "ministack.services.cloudformation.provisioners:_RESOURCE_HANDLERS|AWS::DynamoDB::Table|create"
UPDATE_EXPIRY = "ministack.services.dynamodb:_update_ttl"
UPDATE_BACKUPS = "ministack.services.dynamodb:_update_continuous_backups"
EXPIRY = "ministack.services.dynamodb:_ttl_settings"

Provisioner = Callable[[str, dict[str, Any], str], tuple[str, dict[str, Any]]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (CREATE, UPDATE_EXPIRY, UPDATE_BACKUPS, EXPIRY)


def is_open() -> bool:
    """Whether the emulator still drops the expiry."""
    wanted = {"TableName": "probe", "TimeToLiveSpecification": {"AttributeName": "at", "Enabled": True}}
    patch.resolve(CREATE)("Probe", wanted, "probe")
    return "probe" not in patch.resolve(EXPIRY)


def apply() -> None:
    """Set both whenever CloudFormation makes or remakes a table."""
    patch.replace(CREATE, _with_settings)


def _with_settings(create: Provisioner) -> Provisioner:
    def create_table(logical_id: str, properties: dict[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        name, attributes = create(logical_id, _with_real_booleans(properties), stack)
        for setting, update in (
            ("TimeToLiveSpecification", UPDATE_EXPIRY),
            ("PointInTimeRecoverySpecification", UPDATE_BACKUPS),
        ):
            if wanted := properties.get(setting):
                patch.resolve(update)({"TableName": name, setting: _with_real_booleans(wanted)})
        return name, attributes

    return create_table


def _with_real_booleans(setting: dict[str, Any]) -> dict[str, Any]:
    # A template's parameters are text, and "false" would count as true.
    return {key: value == "true" if value in ("true", "false") else value for key, value in setting.items()}
