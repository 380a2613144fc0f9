"""The API conforms to its OpenAPI document. To collect this module takes seconds: `tests/conftest.py` avoids it."""

from __future__ import annotations

import copy

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from faultbridge.serve.entrypoints.ingest import wire_ingest
from infra.docs.openapi import openapi_document
from tests.api.gateway import Gateway

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]


def _gateway() -> Gateway:
    gateway = Gateway()
    wire_ingest(gateway.world.app).ingest([gateway.world.message(node="n-1")])
    return gateway


schema = schemathesis.openapi.from_dict(copy.deepcopy(openapi_document()))
schema.app = _gateway().wsgi


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")
@schema.parametrize()
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_valid_or_invalid_request_breaks_the_api(case) -> None:
    case.call_and_validate(checks=CHECKS)
