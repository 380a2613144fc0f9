"""The content of a page before it is rendered for a recipient, and the settings of the pager."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct, field
from msgspec.structs import force_setattr

from faultbridge.model.safe_text import visible_line
from faultbridge.record.ports.messaging import PageUrgency


class PageState(StrEnum):
    """The state of a page: `triggered` while its reason exists, `resolved` afterwards.

    A message in the state `acknowledged` says that a person took the case of a triggered page over.
    """

    TRIGGERED = "triggered"
    ACKNOWLEDGED = "acknowledged"
    RESOLVED = "resolved"


def make_visible(target: Struct, *names: str) -> None:
    """Replace control characters by visible text in the named attributes of a new frozen object.

    Text from a record then cannot add a forged line to a page.
    """
    for name in names:
        text = getattr(target, name)
        if text is not None:
            force_setattr(target, name, visible_line(text))


class Location(Struct, frozen=True):
    """Where a fault is: a node and its component, or a whole cluster."""

    cluster: str
    node: str | None = None
    instance_id: str | None = None
    component: str = ""
    serial: str | None = None
    pci: str | None = None

    def __post_init__(self) -> None:
        """Replace control characters in texts from records by visible text."""
        make_visible(self, "component", "serial", "pci")


class Button(Struct, frozen=True):
    """A button of a page in Slack: the order that it gives, its label, its value, and what is asked before."""

    order: str
    label: str
    value: str
    confirm: str


class SummaryMember(Struct, frozen=True):
    """One page in a summary. The page has no message of its own, because the hourly limit was reached."""

    key: str
    node: str = ""
    code: str = ""


class Page(Struct, frozen=True):
    """The complete content of a page. Repetitions of a page have the same `key`.

    `headline` states in a few words what happened, and `what` in a sentence. `system_action` states what Faultbridge
    does, and `action_required` what the reader must do. `phases` maps the phases of a closed case to their durations in
    milliseconds. Only summaries have `members`.
    """

    key: str
    state: PageState
    urgency: PageUrgency
    headline: str
    fault: str
    location: Location
    system_action: str
    action_required: str
    commands: tuple[str, ...]
    runbook: str
    timeline: str
    event_type: str
    event_id: str
    occurred_at: datetime
    code: str | None = None
    severity: str | None = None
    case_id: str | None = None
    since: datetime | None = None
    phases: Mapping[str, int] = field(default_factory=dict)
    members: tuple[SummaryMember, ...] = ()
    note: str = ""
    what: str = ""
    buttons: tuple[Button, ...] = ()

    def __post_init__(self) -> None:
        """Replace control characters in the texts by visible text, so that each text is one line."""
        make_visible(self, "headline", "fault", "what", "system_action", "action_required", "code", "note")


class Links(Struct, frozen=True):
    """The base URLs of the runbooks and of the console, from which the links in pages are made.

    Without a runbook URL, pages name the files of the repository. Without a console URL, pages have no console link.
    """

    runbook_url: str = ""
    console_url: str = ""

    def runbook(self, name: str) -> str:
        """Return the URL of a runbook, or its path in the repository if no runbook URL is configured."""
        return f"{self.runbook_url.rstrip('/')}/{name}.md" if self.runbook_url else f"docs/runbooks/{name}.md"

    def timeline(self, cluster: str, case_id: str | None = None) -> str:
        """Return the console URL of a case, or of the cluster if `case_id` is None.

        Returns an empty string if no console URL is configured.
        """
        if not self.console_url:
            return ""
        return f"{self.console_url.rstrip('/')}/clusters/{cluster}{f'/cases/{case_id}' if case_id else ''}"


class PagerSettings(Struct, frozen=True):
    """The links and limits of the pager.

    `max_per_hour` limits the pages about the nodes of one cluster in a clock hour, separately for each urgency. An
    urgent page that stays unresolved is repeated after `remind_after`. With `buttons`, pages in Slack have buttons.
    """

    links: Links = field(default_factory=Links)
    max_per_hour: int = 10
    remind_after: timedelta = timedelta(hours=4)
    buttons: bool = False
