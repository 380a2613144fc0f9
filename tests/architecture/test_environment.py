"""Each function is given the environment variables that building its services reads, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.stack import StackSecret
from faultbridge.model.settings import PREFIX, Settings
from faultbridge.serve.entrypoints.archive import wire_archive
from faultbridge.serve.entrypoints.console import wire_console
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.intake import wire_log_subscription, wire_webhooks
from faultbridge.serve.entrypoints.inventory import wire_inventory, wire_inventory_events
from faultbridge.serve.entrypoints.pager import wire_chats, wire_pages
from faultbridge.serve.entrypoints.publish import wire_archive_writer, wire_publish
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.entrypoints.timeline import wire_api
from faultbridge.serve.wiring.installation import Installation, on_aws
from faultbridge.serve.wiring.services import wire_rejects, wire_step_runner
from infra.docs.template import resources, template

# Given to every function: defaults, the name and id of the stack, and one variable for tests of the embedded stack.
EVERYWHERE = {
    f"{PREFIX}{name}"
    for name in (
        "PROBE_SECONDS",
        "CLOCK_OFFSET_SECONDS",
        "ENTRY_DAYS",
        "SENDER_PROOF",
        "OWN_SENDERS",
        "EVENTS_QUEUE",
        "STACK",
        "STACK_ID",
    )
}
SERVICES: dict[str, tuple[Callable[[Installation], object], ...]] = {
    "ArchiveFunction": (wire_archive,),
    "ConsoleFunction": (wire_console,),
    "IngestFunction": (wire_ingest, wire_rejects),
    "IntakeFunction": (wire_webhooks, wire_log_subscription),
    "InventoryFunction": (wire_inventory, wire_inventory_events),
    "PagerFunction": (wire_pages, wire_chats),
    "PublishFunction": (wire_publish, wire_archive_writer),
    "ReactFunction": (wire_react,),
    "ReplacementFunction": (wire_step_runner,),
    "SweepFunction": (wire_sweep,),
    "TimelineFunction": (wire_api,),
}
"""The functions that wire the services of each Lambda function."""
SECRETS = {
    "ConsoleFunction": ("token_secret",),
    "IntakeFunction": ("webhook_senders",),
    "TimelineFunction": ("token_secret", "on_call"),
}
"""The secrets whose names a function reads at a call, as methods of the ports."""

FUNCTIONS = sorted(resources("AWS::Serverless::Function"))


class Remembering(dict[str, str]):
    """Variables that record which of them were read."""

    def __init__(self, values: dict[str, str]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """Record the name and return the value."""
        self.asked.add(key)
        return super().get(key, default)


def given(function: str) -> set[str]:
    """Return the names of the variables that the template gives a function, without those of other libraries."""
    everyone = template()["Globals"]["Function"]["Environment"]["Variables"]
    own = resources("AWS::Serverless::Function")[function]["Properties"]["Environment"]["Variables"]
    return {name for name in everyone | own if name.startswith(PREFIX)}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_given_what_it_reads_and_no_more(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StackSecret, "value", b"{}")
    asked: set[str] = set()
    for through in ("firehose", ""):
        chosen = {f"{PREFIX}ARCHIVE_STREAM": through, f"{PREFIX}PAGERDUTY": "bus"}
        variables = Remembering(dict.fromkeys(given(function), "1") | chosen)
        installation = on_aws(Settings(variables), Clients(region="us-east-1"))
        for service in SERVICES[function]:
            service(installation)
        for secret in SECRETS.get(function, ()):
            getattr(installation.ports, secret)()
        asked |= variables.asked
    assert asked - EVERYWHERE == given(function) - EVERYWHERE


def test_ingest_is_given_whether_senders_are_proven_its_own_senders_and_the_queue_of_events() -> None:
    variables = resources("AWS::Serverless::Function")["IngestFunction"]["Properties"]["Environment"]["Variables"]
    own = {"Fn::Sub": "${SweepRole.RoleId} ${IntakeRole.RoleId}"}
    assert variables[f"{PREFIX}SENDER_PROOF"] == {"Ref": "SenderProof"}
    assert variables[f"{PREFIX}OWN_SENDERS"] == {"Fn::If": ["ProvesSenders", own, ""]}
    assert variables[f"{PREFIX}EVENTS_QUEUE"] == {"Fn::GetAtt": "CloudEventsQueue.Arn"}
