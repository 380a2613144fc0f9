"""Pages of the console: what they show, for whom, with which headers, and how much they read."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from html.parser import HTMLParser

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import NodeStatus
from faultbridge.model.nodes import NodeKey
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.api.requests import Caller, Request
from faultbridge.serve.casefile.collect import CaseFiles
from faultbridge.serve.console.facts import MAX_JOBS
from faultbridge.serve.console.html import Links, linked_ids
from faultbridge.serve.console.pages import MAX_CASE_FILE, POLICY, Pages
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.wiring.services import (
    wire_cluster_status,
    wire_facts,
    wire_jobs,
    wire_orders,
    wire_registration,
    wire_retirement,
)
from tests.console.sites import HOSTILE, Site

C = "/clusters/train-a"


@pytest.fixture
def site() -> Site:
    """A cluster of three nodes; the first one has a fatal fault and a case that waits."""
    made = Site()
    made.case = made.fault()  # type: ignore[attr-defined]
    return made


def paths(site: Site) -> dict[str, str]:
    """Return the path of each page."""
    return {"fleet": "", "cluster": C, "node": f"{C}/nodes/n-1", "case": f"{C}/cases/{site.case}"}  # type: ignore[attr-defined]


class Document(HTMLParser):
    """Collects the elements and the addresses of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def addresses(text: str) -> list[str]:
    """Return the addresses of the links of a page."""
    return [str(attributes["href"]) for tag, attributes in Document(text).elements if tag == "a"]


def test_the_case_page_says_first_what_to_do_and_then_answers_the_questions(site: Site) -> None:
    text = site.get(paths(site)["case"]).text
    questions = ("What should you do?", "What happened?", "Why is this not repaired yet?", "Which action is planned?",
                 "What was done?")  # fmt: skip
    positions = [text.index(question) for question in questions]
    assert positions == sorted(positions)
    assert "GPU has fallen off the bus." in text
    assert "Why is this not repaired yet?" in text
    assert "No repair was started; the node is degraded, in service." in text


def test_every_page_is_valid_and_links_only_to_this_console(site: Site) -> None:
    for path in paths(site).values():
        answer = site.get(path)
        assert answer.status == 200, answer.text
        for tag, attributes in Document(answer.text).elements:
            for name in ("href", "src"):
                address = attributes.get(name)
                assert address is None or re.match(r"/console|#|\?", address), (tag, address)


def test_no_page_has_an_inline_script_an_inline_style_or_an_event_handler(site: Site) -> None:
    for path in paths(site).values():
        for tag, attributes in Document(site.get(path).text).elements:
            assert "style" not in attributes
            assert not [name for name in attributes if name.startswith("on")]
            assert tag != "style"
            assert tag != "script" or attributes.get("src")


def test_every_answer_forbids_what_a_page_does_not_need(site: Site) -> None:
    for path in (*paths(site).values(), "/nothing", f"{C}/cases/none"):
        headers = site.get(path).headers
        assert headers["Content-Security-Policy"] == POLICY
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert "'unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none'")


@pytest.mark.parametrize("kind", HOSTILE)
def test_text_from_a_source_is_shown_as_text(kind: str) -> None:
    site, text = Site(), HOSTILE[kind]
    line = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").replace("\n", " ")
    case = site.fault(text=f"NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name={line}, {line}")
    for path in (C, f"{C}/nodes/n-1", f"{C}/cases/{case}"):
        shown = site.get(path).text
        assert "<script>alert" not in shown
        assert "<img" not in shown
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff]", shown)


def test_a_page_that_did_not_change_is_not_sent_again(site: Site) -> None:
    for path in paths(site).values():
        first = site.get(path)
        again = site.get(path, if_none_match=first.headers["ETag"])
        assert (again.status, again.text) == (304, "")
        assert f'data-version="{first.headers["ETag"].replace(chr(34), "&#34;")}"' in first.text


def test_a_page_that_changed_is_sent(site: Site) -> None:
    tags = {path: site.get(path).headers["ETag"] for path in paths(site).values()}
    wire_ingest(site.world.app).ingest([site.world.message("NVRM: Xid (PCI:0000:53:00): 48, pid=1", node="n-1")])
    wire_cluster_status(site.world.app).update("train-a")
    for name in ("node", "case"):
        assert site.get(paths(site)[name], if_none_match=tags[paths(site)[name]]).status == 200


def test_a_large_page_is_compressed_for_a_browser_that_accepts_it(site: Site) -> None:
    plain, small = site.get(C), site.get(C, accept_encoding="gzip, br")
    assert "Content-Encoding" not in plain.headers
    assert small.headers["Content-Encoding"] == "gzip"
    assert small.text == plain.text


def test_style_and_script_are_served_under_names_with_their_hash(site: Site) -> None:
    page = Document(site.get().text)
    assets = [a.get("href") or a.get("src") for tag, a in page.elements if tag in {"link", "script"}]
    assert len(assets) == 3
    for address in assets:
        assert address
        answer = site.get(address.removeprefix("/console"))
        assert answer.status == 200
        assert "immutable" in answer.headers["Cache-Control"]
    assert site.get("/assets/console-000000000000.css").status == 404
    assert site.get("/assets/../facts.py").status == 404


def test_a_token_for_one_cluster_shows_this_cluster_only(site: Site) -> None:
    wire_registration(site.world.app).add_cluster(ClusterConfig("secret-b"))
    assert "secret-b" in site.get().text
    assert "secret-b" not in site.get(clusters=("train-a",)).text
    refused = site.get("/clusters/secret-b", clusters=("train-a",))
    assert (refused.status, "secret-b" in refused.text) == (403, False)
    assert site.get("/clusters/secret-b", clusters=None).status == 200


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/nothing", "", 404),
        ("/clusters/none", "", 404),
        (f"{C}/nodes/none", "", 404),
        (f"{C}/cases/none", "", 404),
        (f"{C}/incidents/none", "", 404),
        (f"{C}/jobs", "id=none", 404),
        (f"{C}/jobs", "", 404),
        (f"{C}/nodes/n-1", "id=1", 400),
        (C, "since=yesterday", 400),
        (C, "since=2026-02-03T12:00:00Z&until=2026-02-03T11:00:00Z", 400),
        (C, "format=xml", 400),
        (C, "unknown=1", 400),
        (f"{C}/nodes/%3Cscript%3E", "", 400),
    ],
)
def test_a_wrong_address_gets_a_page_that_states_the_reason(site: Site, path: str, query: str, status: int) -> None:
    answer = site.get(path, query)
    assert (answer.status, answer.headers["Cache-Control"]) == (status, "no-store")
    assert "urn:faultbridge:" in answer.text
    assert "Traceback" not in answer.text


def test_the_same_data_is_available_as_json_and_its_entries_as_csv(site: Site) -> None:
    path = paths(site)["case"]
    found = site.get(path, "format=json")
    document = json.loads(found.text)
    assert document["case"]["case_id"] == site.case  # type: ignore[attr-defined]
    rows = list(csv.DictReader(io.StringIO(site.get(path, "format=csv").text)))
    assert [row["event_id"] for row in rows] == [one["metadata"]["event_id"] for one in document["entries"]]
    assert found.headers["Content-Disposition"].startswith("attachment")


@pytest.mark.parametrize("job_id", ["ml/llm", "50%", "a%2Fb", "x+y&format=csv#", "80 %"])
def test_every_link_to_a_job_leads_to_its_page_and_its_downloads(job_id: str) -> None:
    site = Site()
    wire_jobs(site.world.app).start("train-a", job_id, ["n-1"])
    for path in ("/clusters/train-a", "/clusters/train-a/nodes/n-1"):
        links = [href for href in addresses(site.get(path).text) if "/jobs?" in href]
        assert links == [Links().job("train-a", job_id)]
    page = site.get(links[0].removeprefix("/console"))
    assert (page.status, html.escape(job_id) in page.text) == (200, True)
    downloads = [href for href in addresses(page.text) if "format=json" in href]
    found = json.loads(site.get("/clusters/train-a/jobs", downloads[0].removeprefix("?")).text)
    assert found["job"]["job_id"] == job_id


def test_every_page_is_shown_beside_a_node_that_is_unhealthy_without_a_case(site: Site) -> None:
    wire_registration(site.world.app).add_node("train-a", NewNode("n-without-instance"))
    assert site.world.node(NodeKey("train-a", "n-without-instance")).status is NodeStatus.PROVISIONING
    assert {path: site.get(path).status for path in paths(site).values()} == dict.fromkeys(paths(site).values(), 200)
    facts = wire_facts(site.world.app)
    assert facts._failing(facts.views.cluster("train-a"), "n-2") == ("n-1",)


def test_a_list_of_jobs_states_how_many_it_does_not_show() -> None:
    site = Site()
    for number in range(MAX_JOBS + 3):
        wire_jobs(site.world.app).start("train-a", f"job-{number:02}", ["n-1", "n-2"])
    wire_jobs(site.world.app).start("train-a", "job-99", ["n-2"])
    for path, total in (("/clusters/train-a", MAX_JOBS + 4), ("/clusters/train-a/nodes/n-1", MAX_JOBS + 3)):
        assert f'Jobs <span class="note">{total}, the first {MAX_JOBS} by id</span>' in site.get(path).text
    assert "by id" not in site.get("/clusters/train-a/nodes/n-3").text


def test_a_time_range_limits_the_entries_of_a_node(site: Site) -> None:
    path = paths(site)["node"]
    before = json.loads(site.get(path, "format=json&until=2026-02-03T11:00:00Z").text)
    after = json.loads(site.get(path, "format=json&since=2026-02-03T11:00:00Z").text)
    assert (len(before["entries"]), len(after["entries"]) > 3) == (0, True)
    assert "data-refresh" not in site.get(path, "until=2026-02-03T11:00:00Z").text


def test_an_unexpected_error_is_a_page_without_details(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(wire_facts(site.world.app)), "fleet", lambda *_: 1 / 0)
    answer = site.get()
    assert (answer.status, "division" in answer.text) == (500, False)


def test_an_id_in_a_sentence_is_not_broken_and_the_id_of_a_case_is_a_link() -> None:
    case, instance = "c-ikrcm5fjwpib6rdy7oj3jj3mym", "i-00000000000000041"
    shown = linked_ids(f"<b>{instance}</b> was started for {case}", Links(), "train-a")
    assert shown == (
        f'&lt;b&gt;<span class="id">{instance}</span>&lt;/b&gt; was started for '
        f'<a class="id" href="/console/clusters/train-a/cases/{case}" title="{case}">{case[:8]}…</a>'
    )
    assert "<a" not in linked_ids(case, Links(None), "train-a")


def test_a_retired_node_is_not_shown_as_a_node_of_its_cluster(site: Site) -> None:
    wire_retirement(site.world.app).retire(NodeKey("train-a", "n-2"), OperatorOrder(None, "rack given up"))
    shown = addresses(site.get(C).text)
    assert not [address for address in shown if address.endswith("/nodes/n-2")]
    assert [address for address in shown if address.endswith("/nodes/n-3")]


def test_the_page_of_a_closed_case_gives_its_case_file_to_readers_of_the_cluster(site: Site) -> None:
    case = site.case  # type: ignore[attr-defined]
    path = f"{C}/cases/{case}"
    assert f"{path}/file" not in site.get(path).text
    wire_orders(site.world.app).cases.cancel(case, OperatorOrder("ada"))
    wire_react(site.world.app).run([("train-a", "n-1")])
    stack = site.world.app.stack
    ports = site.world.app.ports
    written = CaseFiles(ports.table, ports.vault, ports.clock, stack)(wire_facts(site.world.app).views.case(case))
    assert site.binary(f"{path}/file") == ("application/zip", written)
    assert site.get(f"{path}/file", clusters=["other"]).status == 403
    assert site.get(f"/clusters/other/cases/{case}/file").status == 404
    assert site.get(f"{C}/cases/c-none/file").status == 404


def test_a_case_file_that_is_too_large_for_a_response_names_the_command(site: Site) -> None:
    pages = Pages(wire_facts(site.world.app), case_files=lambda _: bytes(MAX_CASE_FILE + 1))
    shown = pages(f"{C}/cases/{site.case}/file", Request({}, {}, caller=Caller("ada")))  # type: ignore[attr-defined]
    assert (shown.status, f"faultbridge case file {site.case}" in html.unescape(shown.text)) == (422, True)  # type: ignore[attr-defined]
