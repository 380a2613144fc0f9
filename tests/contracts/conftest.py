"""Fixtures of the contract tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultbridge.adapters.aws.clients import Clients
from tests.contracts.aws import aws


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    """AWS clients, shared by one module; tests use unique names."""
    with aws() as made:
        yield made
