"""The demo: one command, consistent numbers, and a console and a report that open in a browser."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from faultbridge.model.times import to_text
from faultbridge.record.timeline import TimelineQuery
from tests.architecture.project import ROOT
from tests.console import browser
from tests.e2e.harness.installation import Installation
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

RECOMPUTE = ROOT / "examples" / "service-level" / "recompute.py"

in_chromium = pytest.mark.skipif(
    not (browser.CHROMIUM and browser.DRIVER), reason="chromium and chromedriver are not installed"
)
"""Skips a test where no browser is installed."""


@pytest.fixture(scope="module")
def demo(installation: Installation) -> dict[str, Any]:
    """Run the demo; return its result."""
    result: dict[str, Any] = installation.cli_json("demo")
    return result


def test_the_demo_ends_with_a_verified_node_and_consistent_numbers(
    installation: Installation, demo: dict[str, Any]
) -> None:
    result = demo
    assert result["wrong"] == []
    assert result["outcomes"] == {
        "clean": 2, "duplicate": 1, "stale": 0, "folded": 0, "recorded": 5, "rejected": 2,
    }  # fmt: skip
    assert result["entries"] == result["events"]
    assert [page["state"] for page in result["pages"]] == ["triggered", "resolved"]
    assert result["old_instance"] != result["new_instance"]
    (case,) = result["cases"]
    assert (case["code"], case["resolution"]) == ("xid.79", "replaced")
    assert {"detected", "draining", "intent", "awaiting", "verifying"} <= set(case["phases"])
    (node,) = (
        one for one in installation.cli_json("node", "list", "--cluster", result["cluster"]) if one["former_instances"]
    )
    assert (node["status"], node["unverified"], node["instance_id"]) == ("healthy", False, result["new_instance"])
    entries = installation.cli_json("timeline", "--cluster", result["cluster"])
    # The archive seals each hour, also one that ends during the demo.
    starts = [
        one
        for one in entries
        if one["metadata"]["causation_id"] is None and one["metadata"]["recorded_by"] != "archive"
    ]
    # A sweep between the registration of the cluster and of its nodes records that there are no nodes.
    reasons = {one["data"].get("reason") for one in starts}
    assert reasons - {"no nodes"} == {"import of a serving fleet, unverified"}, [
        one for one in starts if not one["data"].get("reason")
    ]
    first, *others = installation.cli_json("timeline", "--cause", result["pages"][-1]["event_id"])
    assert (first["metadata"]["event_type"], first["data"]["code"]) == ("Node Fault Detected", "xid.79")
    assert any(one["relation"] == "event" for one in others)


def test_both_programs_compute_the_same_service_level_of_the_demo(
    installation: Installation, demo: dict[str, Any], tmp_path: Path
) -> None:
    cluster, archive = demo["cluster"], installation.application.ports.archive
    since, until = (to_text(datetime.now(UTC) + offset) for offset in (-timedelta(days=1), timedelta(0)))
    recorded = {line.event.metadata.event_id for line in installation.timeline.entries(TimelineQuery(cluster))}

    def copied() -> bool:
        for key in archive.list(f"archive/cluster={cluster}/"):
            path = tmp_path / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.get(key) or b"")
        texts = [gzip.decompress(path.read_bytes()).decode() for path in tmp_path.rglob("*.gz")]
        return all(any(event_id in text for text in texts) for event_id in recorded)

    eventually(copied)
    ours = installation.cli_json("sla", "--cluster", cluster, "--since", since, "--until", until)
    arguments = [sys.executable, "-I", str(RECOMPUTE), str(tmp_path), cluster, since, until]
    theirs = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert json.loads(theirs.stdout) == ours
    assert ours["eligible_ms"] > 0
    assert [one["node"] for one in ours["outages"]] == [demo["node"]]


@pytest.mark.servers
@in_chromium
@pytest.mark.filterwarnings("default")
def test_every_view_of_the_console_opens_after_the_demo(installation: Installation, demo: dict[str, Any]) -> None:
    console, cluster = demo["console"].split("/clusters/")
    assert installation.cli_json("console") == {"console": console}
    started = installation.cli("job", "start", "ml/llm", "--cluster", cluster, "--node", demo["node"])
    assert started.returncode == 0, started.stderr
    views = ("", f"/nodes/{demo['node']}", f"/cases/{demo['cases'][0]['case_id']}", "/jobs?id=ml%2Fllm")
    with browser.chromium() as driver:
        for path in ("", *(f"/clusters/{cluster}{view}" for view in views)):
            assert browser.faults_of_view(driver, console, path) == []


@pytest.mark.servers
@in_chromium
@pytest.mark.filterwarnings("default")
def test_a_report_of_the_demo_is_small_and_opens_from_disk_without_a_network(
    installation: Installation, demo: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    assert installation.cli("report", "--cluster", demo["cluster"], "--output-file", str(file)).returncode == 0
    assert file.stat().st_size < 1_000_000
    with browser.chromium() as driver:
        browser.disconnect(driver)
        driver.get(file.as_uri())
        assert browser.requests(driver) == [file.as_uri()]
        assert [*browser.messages(driver), *browser.violations(driver)] == []
