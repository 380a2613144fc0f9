"""The committed OpenAPI document is up to date, valid and complete."""

from __future__ import annotations

import json

from openapi_spec_validator import OpenAPIV31SpecValidator

from faultbridge.serve.api.routes import ROUTES
from infra.docs.openapi import openapi_document
from tests.architecture.project import ROOT


def test_the_committed_document_is_up_to_date() -> None:
    committed = json.loads((ROOT / "docs" / "reference" / "openapi.json").read_text(encoding="utf-8"))
    assert committed == openapi_document(), "run make docs-reference"


def test_the_document_is_valid_openapi() -> None:
    assert list(OpenAPIV31SpecValidator(openapi_document()).iter_errors()) == []


def test_every_route_is_described_once() -> None:
    names = [op["operationId"] for path in openapi_document()["paths"].values() for op in path.values()]
    assert sorted(names) == sorted({route.name for route in ROUTES})
    assert len(names) == len(ROUTES)
