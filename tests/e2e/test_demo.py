"""The demo: one command, and consistent numbers."""

from __future__ import annotations

import pytest

from tests.e2e.harness.installation import Installation

pytestmark = [pytest.mark.embedded, pytest.mark.slow]


def test_the_demo_ends_with_a_verified_node_and_consistent_numbers(installation: Installation) -> None:
    result = installation.cli_json("demo")
    assert result["wrong"] == []
    assert result["outcomes"] == {
        "clean": 3, "duplicate": 1, "stale": 0, "folded": 0, "recorded": 4, "rejected": 2,
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
