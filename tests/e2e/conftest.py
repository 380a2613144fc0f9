"""Fixtures of the end-to-end tests: one installation, with all calls of its functions recorded."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.e2e.harness.installation import Installation
from tests.e2e.harness.proxy import COMPUTE, EVENT, RecordingProxy
from tests.e2e.harness.queues import EventQueue, PageQueue
from tests.e2e.scenarios.batch import processed_batch, replayed_batch
from tests.e2e.scenarios.dead_job import dead_jobs
from tests.e2e.scenarios.eks_repair import eks_repair
from tests.e2e.scenarios.external_repair import externally_repaired
from tests.e2e.scenarios.failures import crashed_workers, deferred_work
from tests.e2e.scenarios.inputs import bad_batch, other_inputs
from tests.e2e.scenarios.rack_incident import eight_racks, failing_racks, rack_incident
from tests.e2e.scenarios.repairs import recovered_link, repairs
from tests.local.stack import PrivateStack

__all__ = [
    "bad_batch",
    "crashed_workers",
    "dead_jobs",
    "deferred_work",
    "eight_racks",
    "eks_repair",
    "externally_repaired",
    "failing_racks",
    "other_inputs",
    "processed_batch",
    "rack_incident",
    "recovered_link",
    "repairs",
    "replayed_batch",
]

LAST = "test_permissions.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the permission tests last, because they check the calls of all other tests."""
    here = Path(__file__).parent
    ours = [item for item in items if item.path.parent == here]
    in_order = iter(sorted(ours, key=lambda item: item.path.name == LAST))
    items[:] = [next(in_order) if item.path.parent == here else item for item in items]


@pytest.fixture(scope="session")
def installation(embedded_stack: PrivateStack, recording_proxy: RecordingProxy) -> Installation:
    """Observe the shared stack and route the calls of its functions through the proxy."""
    info = embedded_stack.info
    recording_proxy.targets |= {EVENT: urlsplit(info.endpoint).netloc, COMPUTE: urlsplit(info.compute_endpoint).netloc}
    installed = observe(embedded_stack, recording_proxy)
    installed.set_variables({function: recording_proxy.environment(function) for function in installed.functions()})
    return installed


def observe(stack: PrivateStack, proxy: RecordingProxy | None = None) -> Installation:
    """Return an installation with queues for its events and pages."""
    outputs = stack.outputs
    return Installation(
        stack,
        EventQueue(stack, "events"),
        PageQueue(stack, "urgent", topic=outputs["UrgentTopicArn"], filter_policy={"state": ["triggered", "resolved"]}),
        PageQueue(stack, "notice", topic=outputs["NoticeTopicArn"], filter_policy={"urgency": ["notice"]}),
        proxy,
    )
