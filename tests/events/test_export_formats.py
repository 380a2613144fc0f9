"""The events in the formats of others: CloudEvents from the input transformer, and AsyncAPI from the schemas."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from jsonschema import Draft4Validator, Draft7Validator

from faultbridge.model.events.json_schema import EVENT_MODELS, validator_of
from faultbridge.model.times import from_text
from infra.docs.asyncapi import asyncapi_document
from infra.docs.event_schemas import DRAFT_4, draft_4_event
from infra.docs.template import read_template
from tests.events.patterns import envelope
from tests.events.samples import FILES, ROOT, SCHEMAS, label, name_of
from tests.loops import for_each

TEMPLATE = read_template(ROOT / "infra" / "cloudevents.yaml")
TARGET = TEMPLATE["Resources"]["Rule"]["Properties"]["Targets"][0]


def transformed(event: dict[str, Any]) -> str:
    """Return what EventBridge posts: each `<name>` is the value at its path, as JSON, or as it is within quotes.

    This is the documented behavior of an input transformer. A fake, because no emulator runs input transformers of API
    destinations.
    """

    def value(path: str) -> Any:
        found: Any = event
        for part in path.removeprefix("$.").split("."):
            found = found[part]
        return found

    values = {name: value(path) for name, path in TARGET["InputTransformer"]["InputPathsMap"].items()}
    text = TARGET["InputTransformer"]["InputTemplate"]
    text = re.sub(r'"<(\w+)>"', lambda found: f'"{values[found[1]]}"', text)
    return re.sub(r"<(\w+)>", lambda found: json.dumps(values[found[1]]), text)


@for_each("path", FILES, ids=label)
def test_a_sample_becomes_a_cloud_event_that_the_sdk_reads(path: Path) -> None:
    given = envelope(path)
    event = JSONFormat().read(CloudEvent, transformed(given))
    metadata = given["detail"]["metadata"]
    assert event.get_specversion() == "1.0"
    assert (event.get_id(), event.get_type()) == (metadata["event_id"], given["detail-type"])
    assert event.get_subject() == metadata["stream"]
    assert event.get_time() == from_text(metadata["occurred_at"])
    assert event.get_data() == given["detail"]


def test_a_repeated_event_has_the_same_id_and_source() -> None:
    once, again = ({**envelope(FILES[0]), "id": number} for number in ("1", "2"))
    assert transformed(once) == transformed(again)


def test_the_endpoint_is_given_the_content_type_of_cloud_events() -> None:
    assert TARGET["HttpParameters"]["HeaderParameters"]["Content-Type"].startswith("application/cloudevents+json")


def test_the_template_keeps_the_secret_and_grants_one_call() -> None:
    assert TEMPLATE["Parameters"]["HeaderValue"]["NoEcho"] is True
    statement = TEMPLATE["Resources"]["Role"]["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    assert [one["Action"] for one in statement] == ["events:InvokeApiDestination"]
    assert statement[0]["Resource"] == {"Fn::GetAtt": "Destination.Arn"}


def test_the_asyncapi_document_is_valid() -> None:
    # The JSON schema of AsyncAPI 3.0.0 (Apache-2.0, AsyncAPI Initiative) without texts and protocol bindings.
    schema = json.loads((ROOT / "tests" / "events" / "asyncapi-3.0.json").read_text(encoding="utf-8"))
    document = asyncapi_document()
    assert list(Draft7Validator(schema).iter_errors(document)) == []
    del document["channels"]["bus"]["messages"]["case-status-change"]["$ref"]
    document["operations"]["publishEvents"]["action"] = "shout"
    assert list(Draft7Validator(schema).iter_errors(document)) != []


@pytest.mark.parametrize("name", EVENT_MODELS)
def test_the_message_of_each_event_describes_its_samples(name: str) -> None:
    payload = asyncapi_document()["components"]["messages"][name]["payload"]
    reference = payload["properties"]["detail"]["$ref"]
    detail = json.loads((SCHEMAS.root / reference).read_text(encoding="utf-8"))
    whole = {**payload, "properties": {**payload["properties"], "detail": {}}}
    samples = [envelope(path) for path in FILES if name_of(path) == name]
    for sample in samples:
        assert list(Draft7Validator(whole).iter_errors(sample)) == []
        assert list(validator_of(detail).iter_errors(sample["detail"])) == []


REGISTRY = read_template(ROOT / "infra" / "event-schemas.yaml")["Resources"]
MAX_CONTENT = 100_000
"""The most characters of a schema in the registry of EventBridge."""


@pytest.mark.parametrize("name", EVENT_MODELS)
def test_the_registry_of_eventbridge_describes_each_event_in_draft_4(name: str) -> None:
    (found,) = (
        one["Properties"]
        for one in REGISTRY.values()
        if one["Type"] == "AWS::EventSchemas::Schema"
        and one["Properties"]["SchemaName"] == {"Fn::Sub": f"${{EventSource}}@{name.title().replace('-', '')}"}
    )
    assert (found["Type"], json.loads(found["Content"])) == ("JSONSchemaDraft4", draft_4_event(name))
    assert len(found["Content"]) <= MAX_CONTENT
    schema = json.loads(found["Content"])
    assert schema["$schema"] == DRAFT_4
    Draft4Validator.check_schema(schema)
    assert not set(re.findall(r'"(\$defs|const|prefixItems|dependentRequired|if)":', found["Content"]))
    for sample in (envelope(path) for path in FILES if name_of(path) == name):
        assert list(Draft4Validator(schema).iter_errors(sample)) == []
        del sample["detail"]["metadata"]["event_id"]
        assert list(Draft4Validator(schema).iter_errors(sample)) != []


def test_the_template_of_the_registry_fits_cloudformation_and_creates_no_role() -> None:
    assert (ROOT / "infra" / "event-schemas.yaml").stat().st_size < 1_000_000
    assert {one["Type"] for one in REGISTRY.values()} == {
        "AWS::EventSchemas::Registry",
        "AWS::EventSchemas::Schema",
    }
