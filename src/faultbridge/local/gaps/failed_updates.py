"""What a failed stack update leaves.

AWS: everything as it was before the update.
MiniStack: it deletes each resource that the update had passed before it failed, those included that were there
before, and reports UPDATE_ROLLBACK_COMPLETE.
Here: a resource that was there before is put back to its properties of before instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from faultbridge.local.gaps import names as patch

DEPLOY = "ministack.services.cloudformation.changesets:_deploy_stack_async"
DELETE = "ministack.services.cloudformation.stacks:_delete_resource"
UPDATE = "ministack.services.cloudformation.stacks:_update_resource"
STACKS = "ministack.services.cloudformation:_stacks"

_ROLLING_BACK = "UPDATE_ROLLBACK_IN_PROGRESS"

Resources = dict[str, dict[str, Any]]
Deploy = Callable[..., Awaitable[None]]


def names() -> tuple[str, ...]:
    """Return the private names that this replaces or calls."""
    return (DEPLOY, DELETE, UPDATE, STACKS)


def is_open() -> bool:
    """Tell whether the emulator still deletes all that the update had passed."""
    return "for logical_id in reversed(created_in_this_run)" in inspect.getsource(patch.resolve(DEPLOY))


def apply() -> None:
    """Put resources back that were there before the update."""
    before: dict[str, Resources] = {}
    patch.replace(DEPLOY, lambda deploy: _remembering(deploy, before))
    patch.replace(DELETE, lambda delete: _putting_back(delete, before))


def _remembering(deploy: Deploy, before: dict[str, Resources]) -> Deploy:
    async def deploy_stack(stack_name: str, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as there
        previous = inspect.signature(deploy).bind(stack_name, *arguments, **options).arguments.get("previous_stack")
        before[stack_name] = (previous or {}).get("_resources", {})
        try:
            await deploy(stack_name, *arguments, **options)
        finally:
            before.pop(stack_name, None)

    return deploy_stack


def _putting_back(delete: Callable[..., None], before: dict[str, Resources]) -> Callable[..., None]:
    def delete_resource(
        kind: str,
        physical_id: str,
        properties: dict[str, Any],
        stack_name: str | None = None,
        logical_id: str | None = None,
    ) -> None:
        stack = patch.resolve(STACKS).get(stack_name, {})
        old = before.get(stack_name or "", {}).get(logical_id or "")
        if old is None or stack.get("StackStatus") != _ROLLING_BACK:
            delete(kind, physical_id, properties, stack_name, logical_id)
            return
        update = patch.resolve(UPDATE)
        update(kind, physical_id, properties, old["Properties"], stack_name, logical_id, old["Attributes"])

    return delete_resource
