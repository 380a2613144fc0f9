"""The oldest boto3 that the product allows knows every operation that it calls; an older one is named in the error.

`oldest_botocore.json` lists the operations of that version for the services that the product calls.
"""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import pytest
from botocore import xform_name
from botocore.session import get_session

from faultbridge.adapters.aws.clients import SERVICES
from faultbridge.adapters.hyperpod.cluster import MINIMUM, newest_operation, report_old_version
from faultbridge.model.errors import Misconfigured
from tests.architecture.project import ROOT

OLDEST = json.loads(Path(__file__).with_name("oldest_botocore.json").read_text())
OPERATIONS = {service: frozenset(names.split()) for service, names in OLDEST["operations"].items()}
CODE = sorted((ROOT / "src/faultbridge/adapters").rglob("*.py"))


@cache
def names_in_code() -> frozenset[str]:
    """Return every attribute and text of the adapters: paginators and waiters take an operation as a text."""
    nodes = [node for path in CODE for node in ast.walk(ast.parse(path.read_text()))]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return frozenset(attributes | texts)


@pytest.mark.parametrize("service", sorted(OPERATIONS))
def test_the_oldest_allowed_version_knows_every_operation_that_the_code_names(service: str) -> None:
    known = {xform_name(name) for name in get_session().get_service_model(service).operation_names}
    assert (names_in_code() & known) - OPERATIONS[service] == set()


def test_the_operations_of_every_service_are_listed_for_the_stated_version() -> None:
    assert OLDEST["botocore"] == MINIMUM
    assert set(OPERATIONS) == {service for service, *_ in SERVICES.values()}
    assert {"batch_replace_cluster_nodes", "start_cluster_health_check"} <= names_in_code() & OPERATIONS["sagemaker"]


@pytest.mark.parametrize(
    ("version", "is_old"), [("1.40.4", True), ("1.42.87", True), (MINIMUM, False), ("1.43.0", False)]
)
def test_an_older_version_is_logged_once_before_any_repair_needs_it(
    version: str, is_old: bool, caplog: pytest.LogCaptureFixture
) -> None:
    report_old_version.cache_clear()
    assert [report_old_version(version), report_old_version(version)] == [is_old, is_old]
    found = [record.getMessage() for record in caplog.records if "boto3_too_old" in record.getMessage()]
    assert len(found) == is_old
    report_old_version.cache_clear()


def test_an_operation_that_an_older_version_lacks_is_named_with_the_version_that_has_it() -> None:
    class OldClient:
        def describe_cluster(self) -> None: ...

    with pytest.raises(Misconfigured, match=f"lacks start_cluster_health_check; .* boto3 {MINIMUM} or newer"):
        newest_operation(OldClient(), "start_cluster_health_check")
