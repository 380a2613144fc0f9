"""Stacks that tests share, deployed once a session: the product's stack and a small one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.harness.proxy import RecordingProxy
from tests.local.stack import PrivateStack, private_stack, tiny_deployment


@pytest.fixture(scope="session")
def recording_proxy() -> Iterator[RecordingProxy]:
    """Run a proxy for the calls of functions.

    It must outlive the stack, whose processes close their connections to it.
    """
    with RecordingProxy() as proxy:
        yield proxy


@pytest.fixture(scope="session")
def embedded_stack(tmp_path_factory: pytest.TempPathFactory, recording_proxy: RecordingProxy) -> Iterator[PrivateStack]:
    """Run the product's template."""
    del recording_proxy  # requested only for the order in which both end
    with private_stack(tmp_path_factory.mktemp("embedded")) as stack:
        yield stack


@pytest.fixture(scope="session")
def tiny_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateStack]:
    """Run the small test template."""
    with private_stack(tmp_path_factory.mktemp("tiny"), tiny_deployment()) as stack:
        yield stack
