"""Each function is given the variables that putting it together reads, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.bootstrap import of_settings
from faultbridge.settings import PREFIX, Settings
from tests.architecture.project import resources, template

# Read for every function, with a default; the second is for tests of the embedded stack only.
EVERYWHERE = {
    f"{PREFIX}{name}"
    for name in (
        "PROBE_SECONDS",
        "CLOCK_OFFSET_SECONDS",
        "ENTRY_DAYS",
        "SENDER_PROOF",
        "OWN_SENDERS",
        "EVENTS_QUEUE",
    )
}
SERVICES = {  # where the services are not named as the function
    "PagerFunction": ("page",),
    "PublishFunction": ("publish", "write_archive"),
}
FUNCTIONS = sorted(resources("AWS::Serverless::Function"))


class Remembering(dict[str, str]):
    """Variables that remember which of them were asked for."""

    def __init__(self, values: dict[str, str]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        """Note the name and answer."""
        self.asked.add(key)
        return super().get(key, default)


def given(function: str) -> set[str]:
    """Names of the variables that the template gives a function, without other libraries'."""
    everyone = template()["Globals"]["Function"]["Environment"]["Variables"]
    own = resources("AWS::Serverless::Function")[function]["Properties"]["Environment"]["Variables"]
    return {name for name in everyone | own if name.startswith(PREFIX)}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_is_given_what_it_reads_and_no_more(function: str) -> None:
    asked: set[str] = set()
    for through in ("firehose", ""):
        chosen = {f"{PREFIX}ARCHIVE_STREAM": through, f"{PREFIX}PAGERDUTY": "bus"}
        variables = Remembering(dict.fromkeys(given(function), "1") | chosen)
        application = of_settings(Settings(variables), Clients(region="us-east-1"))
        for service in SERVICES.get(function, (function.removesuffix("Function").lower(),)):
            getattr(application, service)
        asked |= variables.asked
    assert asked - EVERYWHERE == given(function) - EVERYWHERE
