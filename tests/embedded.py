"""Stacks that tests share, deployed once a session: the product's stack and a small one.

In a test process of xdist they run until its tests on stacks have ended (`stop_shared_stacks`).
"""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.e2e.harness.proxy import RecordingProxy
from tests.local.stack import PrivateStack, private_stack, tiny_deployment

_RUNNING = ExitStack()


def stop_shared_stacks() -> None:
    """Stop the stacks that tests of this process share, if any run.

    Until then their sweeps process the clusters of all earlier tests every three seconds: a third of a core.
    """
    _RUNNING.close()


@pytest.fixture(scope="session")
def recording_proxy() -> RecordingProxy:
    """Run a proxy for the calls of functions.

    It must outlive the stack, whose processes close their connections to it.
    """
    return _RUNNING.enter_context(RecordingProxy())


@pytest.fixture(scope="session")
def embedded_stack(tmp_path_factory: pytest.TempPathFactory, recording_proxy: RecordingProxy) -> PrivateStack:
    """Run the product's template."""
    del recording_proxy  # requested only for the order in which both end
    return _RUNNING.enter_context(private_stack(tmp_path_factory.mktemp("embedded")))


@pytest.fixture(scope="session")
def tiny_stack(tmp_path_factory: pytest.TempPathFactory) -> PrivateStack:
    """Run the small test template."""
    return _RUNNING.enter_context(private_stack(tmp_path_factory.mktemp("tiny"), tiny_deployment()))
