"""The committed OpenAPI document is up to date, and the API conforms to it."""

from __future__ import annotations

import copy
import json

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from faultbridge.serve.api.routes import ROUTES
from faultbridge.serve.entrypoints.ingest import wire_ingest
from infra.docs.openapi import openapi_document
from tests.api.gateway import Gateway
from tests.architecture.project import ROOT

CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance, status_code_conformance]


def _gateway() -> Gateway:
    gateway = Gateway()
    wire_ingest(gateway.world.app).ingest([gateway.world.message(node="n-1")])
    return gateway


schema = schemathesis.openapi.from_dict(copy.deepcopy(openapi_document()))
schema.app = _gateway().wsgi


def test_the_committed_document_is_up_to_date() -> None:
    committed = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text(encoding="utf-8"))
    assert committed == openapi_document(), "run make docs-reference"


def test_the_document_is_valid_openapi() -> None:
    assert list(OpenAPIV31SpecValidator(openapi_document()).iter_errors()) == []


def test_every_route_is_described_once() -> None:
    names = [op["operationId"] for path in openapi_document()["paths"].values() for op in path.values()]
    assert sorted(names) == sorted({route.name for route in ROUTES})
    assert len(names) == len(ROUTES)


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")
@schema.parametrize()
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_valid_or_invalid_request_breaks_the_api(case) -> None:
    case.call_and_validate(checks=CHECKS)
