"""Report files: complete without a server and without a network."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import pytest

from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.wiring.services import wire_reports
from tests.cli.desk import Desk
from tests.console.sites import HOSTILE, Site


@pytest.fixture
def site() -> Site:
    return Site()


def reports(site: Site) -> dict[str, str]:
    """Return the report of a case and that of its cluster."""
    case = site.fault()
    writer = wire_reports(site.world.app)
    return {"case": writer.case("train-a", case), "cluster": writer.cluster("train-a", (None, None), 300)}


def test_a_report_needs_no_other_file_and_no_address(site: Site) -> None:
    for text in reports(site).values():
        markup = re.sub(r"<(style|script)[^>]*>.*?</\1>", "", text, flags=re.DOTALL)
        addresses = re.findall(r'(?:href|src|action)="([^"]*)"', markup)
        assert [one for one in addresses if not one.startswith("#")] == []
        assert "<link" not in markup
        assert "@import" not in text
        assert "url(" not in text


def test_every_link_of_a_report_leads_to_a_part_of_it(site: Site) -> None:
    text = reports(site)["cluster"]
    ids = set(re.findall(r'id="([^"]+)"', text))
    bars = set(re.findall(r'<a href="#([^"]+)" class="bar', text))
    assert bars
    assert bars <= ids


def test_the_policy_of_a_report_allows_exactly_its_own_style_and_script(site: Site) -> None:
    for text in reports(site).values():
        policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
        assert policy is not None
        for part in ("style", "script"):
            inside = re.search(rf"<{part}[^>]*>(.*?)</{part}>", text, flags=re.DOTALL)
            assert inside is not None
            digest = base64.b64encode(hashlib.sha256(inside[1].encode()).digest()).decode()
            assert f"{part}-src &#39;sha256-{digest}&#39;" in text or f"{part}-src 'sha256-{digest}'" in policy[1]


def test_a_report_contains_the_answers_and_all_entries(site: Site) -> None:
    for text in reports(site).values():
        assert "What should you do?" in text
        assert "GPU has fallen off the bus." in text
        assert text.count('class="entry"') >= 4


def test_a_report_of_a_long_history_stays_small(site: Site) -> None:
    site.fault()
    for number in range(60):
        site.world.ports.clock.advance(1)
        code = 48 if number % 2 else 79
        line = f"NVRM: Xid (PCI:0000:{number:02x}:00): {code}, pid=1"
        wire_ingest(site.world.app).ingest([site.world.message(line, node="n-2")])
    text = wire_reports(site.world.app).cluster("train-a", (None, None), 20)
    assert "only the newest entries" in text
    assert len(text.encode()) < 500_000


def test_a_hostile_name_stays_text_in_a_report(site: Site) -> None:
    text = wire_reports(site.world.app).case(
        "train-a", site.fault(text=f"NVRM: Xid (PCI:0000:c1:00): 79, {HOSTILE['script']}")
    )
    assert "<script>alert" not in text
    assert text.count("<script") == 1


def test_the_commands_write_a_file_and_print_its_name(desk: Desk, tmp_path: Path) -> None:
    wire_ingest(desk.world.app).ingest([desk.world.message()])
    (case,) = desk.json("case", "list")
    for arguments in (("report", "--cluster", "train-a"), ("case", "report", case["case_id"])):
        file = tmp_path / f"{arguments[0]}.html"
        printed = desk.json(*arguments, "--output-file", str(file))
        assert printed == {"file": str(file), "bytes": file.stat().st_size}
        assert file.read_text().startswith("<!doctype html>")
    assert desk("case", "report", "c-none", "--output-file", str(tmp_path / "none.html")).code == 2
    assert not (tmp_path / "none.html").exists()
