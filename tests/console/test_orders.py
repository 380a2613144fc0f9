"""Orders in the console: with their exact effect, from a page of the console, and only by whom may give them."""

from __future__ import annotations

import html
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.event_data import NoteData
from faultbridge.model.nodes import NodeKey
from faultbridge.record.timeline import TimelineQuery
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.serve.console.orders import FORMS
from faultbridge.serve.wiring.services import wire_facts, wire_jobs, wire_node_orders
from tests.api.builders import waiting
from tests.api.gateway import Gateway
from tests.console.sites import HOSTILE, Site

C = "/clusters/train-a"
N1 = f"{C}/nodes/n-1"


@pytest.fixture
def site() -> Site:
    """A cluster whose first node has a case that waits for an approval; a job runs on two nodes."""
    made = Site()
    wire_jobs(made.world.app).start("train-a", "88213", ["n-1", "n-2"], name="llm-70b")
    made.case = waiting(Gateway(made.world))  # type: ignore[attr-defined]
    return made


def path_of(site: Site, kind: str) -> str:
    """Return the path of an order about the case, its node or its cluster."""
    target = {"case": site.case, "node": "n-1", "cluster": ""}[FORMS[kind].about]  # type: ignore[attr-defined]
    return f"{C}/orders/{kind}{f'?target={target}' if target else ''}"


def orders(site: Site) -> list[tuple[str, str]]:
    """Return the recorded orders of people: who, and what with the reason."""
    lines = wire_facts(site.world.app).timeline.entries(TimelineQuery("train-a"))
    found = [line.event.data for line in lines]
    said = [(one, getattr(one, "operator", None)) for one in found]
    return [(who, one.text if isinstance(one, NoteData) else one.reason) for one, who in said if who]


EFFECTS = {
    "approve": "The repair drains 1 node and replaces its instance i-",
    "deny": "No repair starts. The case is escalated",
    "ack": "You own the case",
    "silence": "Pages about n-1 of train-a are not sent",
    "return": "Diagnostics verify 1 node; 1 job runs there: llm-70b",
    "pause": "No new repair starts in train-a, which has 1 live case. 0 running repairs continue.",
}


@pytest.mark.parametrize("kind", FORMS)
def test_a_form_names_the_exact_effect_and_the_person_and_changes_nothing(site: Site, kind: str) -> None:
    shown = site.operated(path_of(site, kind))
    assert (shown.status, shown.headers["Cache-Control"]) == (200, "no-store")
    assert EFFECTS[kind] in html.unescape(shown.text).replace('<span class="id">', "")
    assert "recorded with your name: ada" in shown.text
    assert orders(site) == []


def test_the_effect_of_an_approval_names_the_jobs_that_run_on_the_node(site: Site) -> None:
    assert "1 job runs there: llm-70b" in site.operated(path_of(site, "approve")).text


RECORDED = {
    "approve": "approved: checked",
    "deny": "denied: checked",
    "ack": "acknowledged: checked",
    "silence": "checked",
    "return": "return",
    "pause": "checked",
}


@pytest.mark.parametrize("kind", FORMS)
def test_a_posted_form_gives_the_order_once_with_its_person(site: Site, kind: str) -> None:
    if kind == "return":
        wire_node_orders(site.world.app).quarantine(NodeKey("train-a", "n-1"), OperatorOrder("lin", "burnt smell"))
        assert '/orders/return?target=n-1">Return to service</a>' in site.operated(N1).text
    before, path = len(orders(site)), path_of(site, kind)
    fields = site.form(path) | {"reason": "checked", "hours": "4"}
    for _ in range(2):
        given = site.post(path, fields)
        assert given.status == 303, given.text
    page = {"case": f"{C}/cases/{site.case}", "node": N1, "cluster": C}[FORMS[kind].about]  # type: ignore[attr-defined]
    assert given.headers["Location"] == f"/console{page}"
    (person, text), *more = orders(site)[before:]
    assert more == []
    assert person == "ada"
    assert RECORDED[kind] in text


def test_a_pause_and_a_silence_end_after_the_chosen_time(site: Site) -> None:
    for kind in ("pause", "silence"):
        site.post(path_of(site, kind), site.form(path_of(site, kind)) | {"reason": "kernel update", "hours": "12"})
    cluster = wire_facts(site.world.app).cluster("train-a", (None, None)).cluster
    (pause,), (silence,) = cluster.pauses, cluster.silences
    assert (pause.by, pause.reason, pause.until) == ("ada", "kernel update", site.world.now + timedelta(hours=12))
    assert (silence.node, silence.until) == ("n-1", site.world.now + timedelta(hours=12))
    shown = site.get(C).text
    assert "By ada, until" in shown
    assert "Pages silenced" in shown


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"sec_fetch_site": "same-origin"}, True),
        ({"origin": "https://console.example", "host": "console.example"}, True),
        ({"sec_fetch_site": "cross-site"}, False),
        ({"sec_fetch_site": "same-site"}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "https://console.example", "host": "console.example"}, False),
        ({"origin": "https://evil.example", "host": "console.example"}, False),
        ({"origin": "null", "host": "console.example"}, False),
        ({"host": "console.example"}, False),
    ],
)
def test_a_form_is_taken_only_from_a_page_of_the_console(site: Site, headers: dict[str, str], allowed: bool) -> None:
    path = path_of(site, "ack")
    given = site.post(path, site.form(path), **headers)
    assert (given.status, len(orders(site))) == ((303, 1) if allowed else (403, 0))


def test_a_token_is_valid_only_for_its_person_order_and_subject_and_for_an_hour(site: Site) -> None:
    path = path_of(site, "deny")
    fields = site.form(path)
    for wrong in (
        site.form(path, person="eve"),
        site.form(path, operated=("train-a",)),
        site.form(path_of(site, "approve")),
        {**fields, "token": ""},
        {**fields, "token": fields["token"][:-3] + "abc"},
        {name: value for name, value in fields.items() if name != "token"},
    ):
        given = site.post(path, fields | {"token": wrong.get("token", "")})
        assert (given.status, "bad_token" in given.text) == (400, True)
    site.world.ports.clock.advance(3601)
    assert "the form is too old" in site.post(path, fields).text
    assert orders(site) == []


def test_only_an_operator_of_the_cluster_sees_buttons_and_may_give_orders(site: Site) -> None:
    case = f"{C}/cases/{site.case}"  # type: ignore[attr-defined]
    assert 'class="button"' in site.operated(case).text
    for others in ({"operated": ()}, {"operated": ("other",)}):
        assert 'class="button"' not in site.get(case).text
        assert site.operated(path_of(site, "approve"), **others).status == 403
        fields = site.form(path_of(site, "approve"))
        assert site.post(path_of(site, "approve"), fields, **others).status == 403  # type: ignore[arg-type]
    assert orders(site) == []


def test_a_reader_and_an_operator_do_not_share_a_version_of_a_page(site: Site) -> None:
    assert site.get(C).headers["ETag"] != site.operated(C).headers["ETag"]


def test_a_get_request_and_an_unknown_order_change_nothing(site: Site) -> None:
    path, fields = path_of(site, "ack"), site.form(path_of(site, "ack"))
    assert site.operated(f"{path}&token={fields['token']}").status == 400
    assert site.post(f"{C}/orders/replace?target=n-1", fields).status == 404
    assert site.post(f"{C}/cases/{site.case}", fields).status == 404  # type: ignore[attr-defined]
    assert site.post(path, fields | {"reason": "x" * 5000}).status == 400
    assert orders(site) == []


def test_a_refused_order_is_a_page_that_states_the_reason(site: Site) -> None:
    path = path_of(site, "approve")
    fields = site.form(path)
    site.post(path_of(site, "deny"), site.form(path_of(site, "deny")))
    answer = site.post(path, fields)
    assert answer.status in {400, 409}
    assert "urn:faultbridge:" in answer.text


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_reason_stays_text(site: Site, kind: str) -> None:
    path = path_of(site, "ack")
    given = site.post(path, site.form(path) | {"reason": HOSTILE[kind].encode("utf-8", "replace").decode()[:256]})
    assert given.status in {303, 400}
    shown: Any = site.get(f"{C}/cases/{site.case}").text  # type: ignore[attr-defined]
    assert "<script>alert" not in shown
    assert "<script>alert" not in given.text
    hostile = site.operated(f"{C}/orders/return?target=%3Cscript%3E")
    assert (hostile.status, "<script>" in hostile.text.replace("<script type", "")) == (400, False)
