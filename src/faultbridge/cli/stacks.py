"""Finding a stack: the embedded one that is up, or one on AWS by its outputs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from faultbridge.errors import Misconfigured
from faultbridge.settings import Settings
from faultbridge.variables import PREFIX

if TYPE_CHECKING:
    from faultbridge.adapters.clients import Clients
    from faultbridge.cli.session import Target
    from faultbridge.local import StackInfo

OUTPUTS: Mapping[str, str] = {
    "StackIdentity": "STACK_ID",
    "TableName": "TABLE",
    "EventBusName": "BUS",
    "EventSource": "EVENT_SOURCE",
    "RawRecordsQueueUrl": "QUEUE_URL",
    "RawRecordsDeadLettersUrl": "DEAD_LETTER_QUEUE_URL",
    "CloudEventsQueueUrl": "EVENTS_QUEUE_URL",
    "CloudEventsDeadLettersUrl": "EVENTS_DEAD_LETTER_QUEUE_URL",
    "RawBucketName": "BUCKET",
    "ArchiveBucketName": "ARCHIVE_BUCKET",
    "VaultBucketName": "VAULT_BUCKET",
    "StateMachineArn": "STATE_MACHINE",
    "UrgentTopicArn": "URGENT_TOPIC",
    "NoticeTopicArn": "NOTICE_TOPIC",
}
"""Which output of the template is which setting."""


def settings_of(
    target: Target, clients: Callable[[], Clients], say: Callable[[str], None], *, embedded_only: bool = False
) -> Settings:
    """Return the settings of the stack that is meant; aims this process at the embedded one when that is."""
    embedded = embedded_stack(target.stack)
    if embedded is not None and (embedded_only or not target.said):
        aim(embedded.environment)
        return settings_from(target.stack, embedded.outputs)
    if embedded is not None and target.endpoint_url != embedded.endpoint:
        say(f"the embedded stack {target.stack} is up, but options or environment name another AWS: taking that")
    from faultbridge.adapters.stack_outputs import stack_outputs

    try:
        return settings_from(target.stack, stack_outputs(clients(), target.stack))
    except Misconfigured as error:
        if target.said:
            raise
        raise Misconfigured(f"no embedded stack is up (`faultbridge up` starts one), and {error}") from error


def embedded_stack(stack: str) -> StackInfo | None:
    """Return the embedded stack of this name when it is up."""
    from faultbridge.local import stack_info

    return stack_info(stack=stack)


def aim(environment: Mapping[str, str]) -> None:
    """Aim every AWS client of this process at an embedded stack."""
    os.environ.pop("AWS_PROFILE", None)
    os.environ.update(environment)


def settings_from(stack: str, outputs: Mapping[str, str]) -> Settings:
    """Turn a stack's outputs into settings; what the process's own environment says besides stays."""
    told = {PREFIX + name: outputs[output] for output, name in OUTPUTS.items() if output in outputs}
    own = Settings.from_environment().variables
    return Settings({**own, **told, f"{PREFIX}STACK": stack})
