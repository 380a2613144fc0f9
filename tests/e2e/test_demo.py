"""The demo: one command, and consistent numbers."""

from __future__ import annotations

import pytest

from tests.e2e.harness.installation import Installation

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


def test_the_demo_ends_with_a_verified_node_and_consistent_numbers(installation: Installation) -> None:
    result = installation.cli_json("demo")
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
    starts = [one for one in entries if one["metadata"]["causation_id"] is None]
    # A sweep between the registration of the cluster and of its nodes records that there are no nodes.
    reasons = {one["data"].get("reason") for one in starts}
    assert reasons - {"no nodes"} == {"import of a serving fleet, unverified"}
    first, *others = installation.cli_json("timeline", "--cause", result["pages"][-1]["event_id"])
    assert (first["metadata"]["event_type"], first["data"]["code"]) == ("Node Fault Detected", "xid.79")
    assert any(one["relation"] == "event" for one in others)
