"""One installation for all end-to-end tests: the product's template, with every call of its functions overheard."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.installation import Installation
from tests.e2e.listeners import Inbox, Tap
from tests.e2e.pairs import on_eks
from tests.e2e.rivals import followed
from tests.e2e.scenarios import crashed, doors, left_undone, mess, recovered, repairs, replayed, sent
from tests.e2e.wire import COMPUTE, EVENT, Wire
from tests.local.stack import PrivateStack

__all__ = ["crashed", "doors", "followed", "left_undone", "mess", "on_eks", "recovered", "repairs", "replayed", "sent"]

LAST = "test_permissions.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What the functions may do is compared with what they did in all the other tests."""
    here = Path(__file__).parent
    ours = [item for item in items if item.path.parent == here]
    in_order = iter(sorted(ours, key=lambda item: item.path.name == LAST))
    items[:] = [next(in_order) if item.path.parent == here else item for item in items]


@pytest.fixture(scope="session")
def installation(embedded_stack: PrivateStack, wire: Wire) -> Installation:
    """The stack with a tap on its bus, an inbox at each topic, and a wire between functions and emulators."""
    info = embedded_stack.info
    wire.targets |= {EVENT: _address(info.endpoint), COMPUTE: _address(info.compute_endpoint)}
    installed = listened_to(embedded_stack, wire)
    installed.configure({function: wire.environment(function) for function in installed.functions()})
    return installed


def listened_to(stack: PrivateStack, wire: Wire | None = None) -> Installation:
    """An installation with all listeners in place."""
    outputs = stack.outputs
    return Installation(
        stack,
        Tap(stack, "tap"),
        Inbox(stack, "urgent", topic=outputs["UrgentTopicArn"], filter_policy={"state": ["triggered", "resolved"]}),
        Inbox(stack, "notice", topic=outputs["NoticeTopicArn"], filter_policy={"urgency": ["notice"]}),
        wire,
    )


def _address(endpoint: str) -> str:
    return urlsplit(endpoint).netloc
