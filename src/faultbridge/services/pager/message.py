"""Message: one page as everybody who may read it gets it."""

from __future__ import annotations

from faultbridge.ports import PageMessage
from faultbridge.services.pager.bodies import MACHINE_READ, attributes, json_text, plain_text, sms, subject
from faultbridge.services.pager.forms import forms_of
from faultbridge.services.pager.page import Page


def message_of(page: Page) -> PageMessage:
    """Render a page for every protocol and service at once."""
    text, read_by_programs = plain_text(page), json_text(page)
    return PageMessage(
        key=page.key,
        urgency=page.urgency,
        subject=subject(page),
        bodies={"default": text, "email": text, "sms": sms(page), **dict.fromkeys(MACHINE_READ, read_by_programs)},
        attributes=attributes(page),
        forms=forms_of(page),
    )
