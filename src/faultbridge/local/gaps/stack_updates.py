"""Patches that make MiniStack's CloudFormation updates keep data, as on AWS.

`change_set_deletion`
AWS: the answer of DeleteChangeSet has an empty result.
MiniStack: the result is missing, and boto3 raises KeyError.
Here: the result is there.

`failed_updates`
AWS: after a failed update, every resource is as it was before the update.
MiniStack: each resource that the update processed before the failure is deleted, even if it existed before the update.
The status is UPDATE_ROLLBACK_COMPLETE.
Here: a resource that existed before the update gets its previous properties back.

`stateful_updates`
AWS: an updated queue keeps its messages; an updated table keeps its items and its stream.
MiniStack: queues and tables cannot be updated; an empty resource with the same name is created instead.
Here: the contents of the old resource are copied to the new one; for a table, only if its key schema is unchanged.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from faultbridge.local.gaps.patching import Gap, replace, resolve, source_has, source_lacks

DEPLOY = "ministack.services.cloudformation.changesets:_deploy_stack_async"
DELETE_CHANGE_SET = "ministack.services.cloudformation.changesets:_delete_change_set"
CHANGE_SET_ACTION = "ministack.services.cloudformation.handlers:_ACTION_HANDLERS|DeleteChangeSet"
DELETE = "ministack.services.cloudformation.stacks:_delete_resource"
UPDATE = "ministack.services.cloudformation.stacks:_update_resource"
STACKS = "ministack.services.cloudformation:_stacks"
_HANDLERS = "ministack.services.cloudformation.provisioners:_RESOURCE_HANDLERS"
QUEUE, CREATE_QUEUE = f"{_HANDLERS}|AWS::SQS::Queue", f"{_HANDLERS}|AWS::SQS::Queue|create"
TABLE, CREATE_TABLE = f"{_HANDLERS}|AWS::DynamoDB::Table", f"{_HANDLERS}|AWS::DynamoDB::Table|create"
QUEUES = "ministack.services.sqs:_queues"
TABLES = "ministack.services.dynamodb:_tables"

_ROLLING_BACK = "UPDATE_ROLLBACK_IN_PROGRESS"
_KEPT_OF_QUEUE = ("messages", "tags", "dedup_cache", "fifo_seq")
_KEPT_OF_TABLE = ("TableId", "CreationDateTime", "items", "ItemCount", "TableSizeBytes")
_KEPT_OF_STREAM = ("LatestStreamArn", "LatestStreamLabel")

Resources = dict[str, dict[str, Any]]
Deploy = Callable[..., Awaitable[None]]
Provisioner = Callable[[str, dict[str, Any], str], tuple[str, dict[str, Any]]]


def _restore_at_rollback() -> None:
    before: dict[str, Resources] = {}
    replace(DEPLOY, lambda deploy: _storing_resources(deploy, before))
    replace(DELETE, lambda delete: _restoring_resources(delete, before))


def _storing_resources(deploy: Deploy, before: dict[str, Resources]) -> Deploy:
    async def deploy_stack(stack_name: str, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as in the emulator
        previous = inspect.signature(deploy).bind(stack_name, *arguments, **options).arguments.get("previous_stack")
        before[stack_name] = (previous or {}).get("_resources", {})
        try:
            await deploy(stack_name, *arguments, **options)
        finally:
            before.pop(stack_name, None)

    return deploy_stack


def _restoring_resources(delete: Callable[..., None], before: dict[str, Resources]) -> Callable[..., None]:
    def delete_resource(
        kind: str,
        physical_id: str,
        properties: dict[str, Any],
        stack_name: str | None = None,
        logical_id: str | None = None,
    ) -> None:
        stack = resolve(STACKS).get(stack_name, {})
        old = before.get(stack_name or "", {}).get(logical_id or "")
        if old is None or stack.get("StackStatus") != _ROLLING_BACK:
            delete(kind, physical_id, properties, stack_name, logical_id)
            return
        update = resolve(UPDATE)
        update(kind, physical_id, properties, old["Properties"], stack_name, logical_id, old["Attributes"])

    return delete_resource


def _recreates_queues_and_tables() -> bool:
    return all("update" not in resolve(handlers) for handlers in (QUEUE, TABLE))


def _keep_contents() -> None:
    replace(CREATE_QUEUE, _keeping_messages)
    replace(CREATE_TABLE, _keeping_items)


def _keeping_messages(create: Provisioner) -> Provisioner:
    def create_queue(logical_id: str, properties: dict[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        queues = resolve(QUEUES)
        before = dict(queues.items())
        url, attributes = create(logical_id, properties, stack)
        if old := before.get(url):
            queues[url].update({key: old[key] for key in _KEPT_OF_QUEUE})
        return url, attributes

    return create_queue


def _keeping_items(create: Provisioner) -> Provisioner:
    def create_table(logical_id: str, properties: dict[str, Any], stack: str) -> tuple[str, dict[str, Any]]:
        tables = resolve(TABLES)
        before = dict(tables.items())
        name, attributes = create(logical_id, properties, stack)
        old, new = before.get(name), tables[name]
        if old is None or old["KeySchema"] != new["KeySchema"]:
            return name, attributes
        new.update({key: old[key] for key in _KEPT_OF_TABLE})
        if old["LatestStreamArn"] and new["LatestStreamArn"]:
            # Event source mappings store the stream's ARN, and their positions count its records.
            new.update({key: old[key] for key in _KEPT_OF_STREAM})
            attributes = {**attributes, "StreamArn": old["LatestStreamArn"]}
        return name, attributes

    return create_table


def _with_result(delete: Callable[[Any], tuple[int, Any, bytes]]) -> Callable[[Any], tuple[int, Any, bytes]]:
    def delete_change_set(parameters: Any) -> tuple[int, Any, bytes]:  # noqa: ANN401 - as in the emulator
        status, headers, body = delete(parameters)
        return status, headers, body.replace(b"<ResponseMetadata>", b"<DeleteChangeSetResult/><ResponseMetadata>")

    return delete_change_set


GAPS = (
    Gap(
        "change_set_deletion",
        (DELETE_CHANGE_SET, CHANGE_SET_ACTION),
        source_lacks(DELETE_CHANGE_SET, "DeleteChangeSetResult"),
        lambda: replace(CHANGE_SET_ACTION, _with_result),
    ),
    Gap(
        "failed_updates",
        (DEPLOY, DELETE, UPDATE, STACKS),
        source_has(DEPLOY, "for logical_id in reversed(created_in_this_run)"),
        _restore_at_rollback,
    ),
    Gap("stateful_updates", (CREATE_QUEUE, CREATE_TABLE, QUEUES, TABLES), _recreates_queues_and_tables, _keep_contents),
)
