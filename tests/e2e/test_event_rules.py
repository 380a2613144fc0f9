"""The example rules for customers, tested on a bus with every golden case and every sample event."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge.cli.commands.offline.events import read_rule
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.queues import MessageQueue
from tests.events.patterns import PATTERNS, envelope
from tests.events.samples import FILES, ROOT, label
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

RULES = [read_rule(path) for path in sorted((ROOT / "rules").glob("*.yaml"))]
BUS = "customer-rules"
END_MARKER = "all events were put"


@dataclass(frozen=True)
class ExpectedMatches:
    """A pattern and the names of the events that it must match."""

    name: str
    pattern: Mapping[str, Any]
    matches: frozenset[str]


def golden(rule: str, says: str) -> str:
    """Return the name of a golden case."""
    return f"{rule}: {says}"


def events() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every golden case and every sample with its name."""
    for rule in RULES:
        for case in (*rule.cases.must, *rule.cases.must_not):
            yield golden(rule.name, case.says), case.envelope()
    for path in FILES:
        yield label(path), envelope(path)


def expected() -> Sequence[ExpectedMatches]:
    """Return the expected matches of rules (their golden cases) and of patterns (the samples)."""
    return [
        *(
            ExpectedMatches(
                rule.name, rule.pattern, frozenset(golden(rule.name, case.says) for case in rule.cases.must)
            )
            for rule in RULES
        ),
        *(ExpectedMatches(wanted.name, wanted.pattern, wanted.matches) for wanted in PATTERNS),
    ]


@pytest.fixture(scope="module")
def delivered(installation: Installation) -> dict[str, list[str]]:
    """Put all events on a separate bus and return the names of the delivered events by rule."""
    bus = installation.stack.client("events")
    bus.create_event_bus(Name=BUS)
    queues = {one.name: create_rule(installation, one.pattern) for one in expected()}
    everything = create_rule(installation, {"source": [{"prefix": ""}]})
    sent = dict(events())
    for name, event in sent.items():
        put(bus, name, event["source"], event["detail-type"], event["detail"])
    put(bus, END_MARKER, "tests", END_MARKER, {})
    received = names(everything)
    eventually(
        lambda: received.extend(names(everything)) or set(received) == {*sent, END_MARKER},
        30,
        lambda: set(sent) - set(received),
    )
    return {name: names(queue) for name, queue in queues.items()}


def create_rule(installation: Installation, pattern: Mapping[str, Any]) -> MessageQueue:
    """Create a rule with this pattern and a queue as its target; the rule has the queue's unique name."""
    queue = MessageQueue(installation.stack, "rule")
    client, rule = installation.stack.client("events"), queue.url.rpartition("/")[2]
    client.put_rule(Name=rule, EventBusName=BUS, EventPattern=json.dumps(pattern))
    assert not client.put_targets(Rule=rule, EventBusName=BUS, Targets=[{"Id": "queue", "Arn": queue.arn}])[
        "FailedEntryCount"
    ]
    return queue


def put(bus: Any, name: str, source: str, detail_type: str, detail: Mapping[str, Any]) -> None:
    """Put one event with its name in `Resources`, which no pattern uses."""
    entry = {
        "EventBusName": BUS,
        "Source": source,
        "DetailType": detail_type,
        "Detail": json.dumps(detail),
        "Resources": [name],
    }
    assert not bus.put_events(Entries=[entry])["FailedEntryCount"]


def names(queue: MessageQueue) -> list[str]:
    """Return the names of the events in a queue."""
    return [json.loads(message["Body"])["resources"][0] for message in queue.drain()]


@pytest.mark.parametrize("one", expected(), ids=lambda one: one.name)
def test_a_rule_delivers_exactly_its_expected_events(one: ExpectedMatches, delivered: dict[str, list[str]]) -> None:
    relevant = {name for name, _ in events() if name.startswith(f"{one.name}: ")} or {label(path) for path in FILES}
    assert {name for name in delivered[one.name] if name in relevant} == one.matches


@pytest.mark.parametrize("one", expected(), ids=lambda one: one.name)
def test_no_rule_delivers_a_foreign_event_or_an_event_twice(
    one: ExpectedMatches, delivered: dict[str, list[str]]
) -> None:
    received = delivered[one.name]
    assert END_MARKER not in received
    assert len(set(received)) == len(received)


def test_the_rules_template_deploys_rules_with_the_given_targets(
    installation: Installation,
) -> None:
    queue = MessageQueue(installation.stack, "deployed")
    client = installation.stack.client("cloudformation")
    parameters = {
        "EventBusName": installation.stack.outputs["EventBusName"],
        "PageOnFatalTarget": queue.arn,
        "OnlyMyClusterTarget": queue.arn,
    }
    client.create_stack(
        StackName="customer-rules-template",
        TemplateBody=(ROOT / "infra" / "rules.yaml").read_text(encoding="utf-8"),
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in parameters.items()],
    )
    client.get_waiter("stack_create_complete").wait(
        StackName="customer-rules-template", WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    listed = client.describe_stack_resources(StackName="customer-rules-template")["StackResources"]
    rules = {one["LogicalResourceId"] for one in listed if one["ResourceType"] == "AWS::Events::Rule"}
    assert rules == {"PageOnFatal", "OnlyMyCluster"}
    (rule,) = (rule for rule in RULES if rule.name == "page-on-fatal")
    event = rule.cases.must[0].envelope()
    entry = {
        "EventBusName": parameters["EventBusName"],
        "Source": event["source"],
        "DetailType": event["detail-type"],
        "Detail": json.dumps(event["detail"]),
    }
    assert not installation.stack.client("events").put_events(Entries=[entry])["FailedEntryCount"]
    received = eventually(lambda: [json.loads(one["Body"]) for one in queue.drain()], 20)
    assert [one["detail-type"] for one in received] == ["Node Fault Detected"]
