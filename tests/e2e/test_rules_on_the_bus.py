"""Rules that customers start from, on a bus that delivers: each golden case and each sample of the contract."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge.cli.rules.rule_file import read_rule
from tests.e2e.installation import Installation, eventually
from tests.e2e.listeners import Mailbox
from tests.events.patterns import PATTERNS, envelope
from tests.events.samples import FILES, ROOT, label

pytestmark = pytest.mark.embedded

RULES = [read_rule(path) for path in sorted((ROOT / "rules").glob("*.yaml"))]
BUS = "customer-rules"
LAST_WORD = "all events were put"


@dataclass(frozen=True)
class Asked:
    """A pattern, and which of the events that were put it must pick."""

    name: str
    pattern: Mapping[str, Any]
    picks: frozenset[str]


def golden(rule: str, says: str) -> str:
    """The name of a golden case."""
    return f"{rule}: {says}"


def events() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every golden case and every sample with its name."""
    for rule in RULES:
        for case in (*rule.cases.must, *rule.cases.must_not):
            yield golden(rule.name, case.says), case.whole()
    for path in FILES:
        yield label(path), envelope(path)


def asked() -> Sequence[Asked]:
    """Rules are asked about their own golden cases, patterns about the samples."""
    return [
        *(
            Asked(rule.name, rule.pattern, frozenset(golden(rule.name, case.says) for case in rule.cases.must))
            for rule in RULES
        ),
        *(Asked(wanted.name, wanted.pattern, wanted.matches) for wanted in PATTERNS),
    ]


@pytest.fixture(scope="module")
def delivered(installation: Installation) -> dict[str, list[str]]:
    """The names of the events that came through each rule, on a bus where nobody else listens."""
    bus = installation.stack.client("events")
    bus.create_event_bus(Name=BUS)
    boxes = {one.name: behind(installation, one.pattern) for one in asked()}
    everything = behind(installation, {"source": [{"prefix": ""}]})
    sent = dict(events())
    for name, event in sent.items():
        put(bus, name, event["source"], event["detail-type"], event["detail"])
    put(bus, LAST_WORD, "tests", LAST_WORD, {})
    came = names(everything)
    eventually(
        lambda: came.extend(names(everything)) or set(came) == {*sent, LAST_WORD}, 30, lambda: set(sent) - set(came)
    )
    return {name: names(box) for name, box in boxes.items()}


def behind(installation: Installation, pattern: Mapping[str, Any]) -> Mailbox:
    """A queue behind a rule with this pattern; the rule is named as the queue, for two may be called alike."""
    box = Mailbox(installation.stack, "rule")
    client, rule = installation.stack.client("events"), box.url.rpartition("/")[2]
    client.put_rule(Name=rule, EventBusName=BUS, EventPattern=json.dumps(pattern))
    assert not client.put_targets(Rule=rule, EventBusName=BUS, Targets=[{"Id": "box", "Arn": box.arn}])[
        "FailedEntryCount"
    ]
    return box


def put(bus: Any, name: str, source: str, detail_type: str, detail: Mapping[str, Any]) -> None:
    """Put one event; its name goes where no pattern looks."""
    entry = {
        "EventBusName": BUS,
        "Source": source,
        "DetailType": detail_type,
        "Detail": json.dumps(detail),
        "Resources": [name],
    }
    assert not bus.put_events(Entries=[entry])["FailedEntryCount"]


def names(box: Mailbox) -> list[str]:
    """The names of the events that lie in a queue now."""
    return [json.loads(message["Body"])["resources"][0] for message in box.drain()]


@pytest.mark.parametrize("one", asked(), ids=lambda one: one.name)
def test_a_rule_delivers_what_it_must_and_nothing_else(one: Asked, delivered: dict[str, list[str]]) -> None:
    of_interest = {name for name, _ in events() if name.startswith(f"{one.name}: ")} or {label(path) for path in FILES}
    assert {name for name in delivered[one.name] if name in of_interest} == one.picks


@pytest.mark.parametrize("one", asked(), ids=lambda one: one.name)
def test_no_rule_takes_what_is_not_ours_or_delivers_twice(one: Asked, delivered: dict[str, list[str]]) -> None:
    came = delivered[one.name]
    assert LAST_WORD not in came
    assert len(set(came)) == len(came)


def test_the_template_of_the_rules_puts_them_on_the_bus_with_the_targets_that_are_given(
    installation: Installation,
) -> None:
    box = Mailbox(installation.stack, "deployed")
    client = installation.stack.client("cloudformation")
    given = {
        "EventBusName": installation.stack.outputs["EventBusName"],
        "PageOnFatalTarget": box.arn,
        "OnlyMyClusterTarget": box.arn,
    }
    client.create_stack(
        StackName="customer-rules-template",
        TemplateBody=(ROOT / "infra" / "rules.yaml").read_text(encoding="utf-8"),
        Parameters=[{"ParameterKey": name, "ParameterValue": value} for name, value in given.items()],
    )
    client.get_waiter("stack_create_complete").wait(
        StackName="customer-rules-template", WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
    listed = client.describe_stack_resources(StackName="customer-rules-template")["StackResources"]
    rules = {one["LogicalResourceId"] for one in listed if one["ResourceType"] == "AWS::Events::Rule"}
    assert rules == {"PageOnFatal", "OnlyMyCluster"}
    (rule,) = (rule for rule in RULES if rule.name == "page-on-fatal")
    event = rule.cases.must[0].whole()
    entry = {
        "EventBusName": given["EventBusName"],
        "Source": event["source"],
        "DetailType": event["detail-type"],
        "Detail": json.dumps(event["detail"]),
    }
    assert not installation.stack.client("events").put_events(Entries=[entry])["FailedEntryCount"]
    arrived = eventually(lambda: [json.loads(one["Body"]) for one in box.drain()], 20)
    assert [one["detail-type"] for one in arrived] == ["Node Fault Detected"]
