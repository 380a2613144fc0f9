"""The stacks that tests share, each deployed once a session: the product's, and a small one for the emulators' gaps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.wire import Wire
from tests.local.stack import PrivateStack, private_stack, tiny_deployment


@pytest.fixture(scope="session")
def wire() -> Iterator[Wire]:
    """A wire that may lie between functions and emulators; it outlives the stack, because it ends when they hang up."""
    with Wire() as wire:
        yield wire


@pytest.fixture(scope="session")
def embedded_stack(tmp_path_factory: pytest.TempPathFactory, wire: Wire) -> Iterator[PrivateStack]:
    """The product's own template."""
    del wire  # wanted for the order in which they end
    with private_stack(tmp_path_factory.mktemp("embedded")) as stack:
        yield stack


@pytest.fixture(scope="session")
def tiny_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateStack]:
    """The small template."""
    with private_stack(tmp_path_factory.mktemp("tiny"), tiny_deployment()) as stack:
        yield stack
