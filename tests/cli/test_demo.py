"""The demo: the outcomes of its records, and the checks of its result."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.cli.commands.embedded.demo import TABLE, demo_records
from faultbridge.cli.render.output import OutputFormat, show_one
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.errors import Misconfigured
from faultbridge.model.nodes import NodeKey
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace
from faultbridge.record.verify import Break, BreakKind, Verified
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.send import DeliveryAudit
from tests.builders import KEY, NOON
from tests.cli.builders import INFO, successful_result
from tests.cli.desk import Desk
from tests.world import World

NODES = ("n-0", "n-1", "n-2", "n-3")


def test_each_bundled_record_has_its_intended_outcome() -> None:
    world = World(nodes=NODES)
    records = demo_records(KEY.cluster, NODES, world.now)
    deliveries = [
        world.message(one.raw_input.body, source=one.raw_input.source, node=one.raw_input.node, record_id=f"r-{number}")
        for number, one in enumerate(records)
    ]
    ingested = wire_ingest(world.app).ingest(deliveries)
    assert [ingested.outcomes[f"r-{number}"].value for number in range(len(records))] == [
        "clean", "recorded", "recorded", "recorded", "clean", "recorded", "recorded", "duplicate",
        "rejected", "rejected",
    ]  # fmt: skip
    assert sorted(ingested.reasons.values()) == ["malformed_xml", "unknown_node"]
    statuses = [world.node(NodeKey(KEY.cluster, name)).status for name in NODES]
    assert Counter(statuses) == {NodeStatus.HEALTHY: 2, NodeStatus.DEGRADED: 2}


def test_only_the_lost_gpu_opens_a_case() -> None:
    world = World(nodes=NODES)
    for one in demo_records(KEY.cluster, NODES, world.now):
        world.outcomes(world.message(one.raw_input.body, source=one.raw_input.source, node=one.raw_input.node))
    cases = [world.node(NodeKey(KEY.cluster, name)).live_case for name in NODES]
    assert [case.code if case else None for case in cases] == ["xid.79", None, None, None]


def test_a_successful_demo_prints_the_checked_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    result = successful_result()
    assert result.problems == []
    show_one(result.document(), TABLE, OutputFormat.TABLE)
    out = capsys.readouterr().out
    for expected in (
        "demo",
        "1 recorded",
        "i-old",
        "i-0aaaaaaaaaaaaaaa1",
        "replaced",
        "yes (2 streams)",
        "on\n",
        "8.5 s",
    ):
        assert expected in out
    document = result.document()
    assert (document["events"], document["deliveries"]) == (1, 2)
    assert [page["subject"] for page in document["pages"]] == ["on", "over"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"cases": []}, "no case was opened"),
        ({"audit": DeliveryAudit(NOON, 2, dict.fromkeys(Outcome, 0), ("r-2",))}, "records without an outcome: 1"),
        ({"verified": Verified(2, 1, [Break("s", 1, 2, BreakKind.GAP, "x")])}, "record not verified"),
        ({"events": []}, "0 events for 1 entries"),
        ({"pages": []}, "no page was sent"),
    ],
)
def test_a_failed_demo_names_the_failed_check(change: dict[str, Any], problem: str) -> None:
    (found,) = replace(successful_result(), **change).problems
    assert problem in found


def test_a_demo_with_a_live_case_fails() -> None:
    result = successful_result()
    (view,) = result.cases
    live = replace(view, case=replace(view.case, status=CaseStatus.IN_PROGRESS, resolution=None))
    assert "is in_progress" in replace(result, cases=[live]).problems[0]


def test_a_demo_at_the_same_second_of_another_day_gets_a_cluster_of_its_own(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters: list[str] = []

    def refuse(_environment: object, _outputs: object, cluster: str) -> None:
        clusters.append(cluster)
        raise Misconfigured("no queue")

    monkeypatch.setattr("faultbridge.local.up", lambda *_steps, **_options: INFO)
    monkeypatch.setattr("faultbridge.cli.commands.embedded.demo.subscribe_to_events", refuse)
    desk("demo")
    desk.world.ports.clock.advance(timedelta(days=1).total_seconds())
    desk("demo")
    assert clusters == ["demo-20260203-120000", "demo-20260204-120000"]
