"""`faultbridge top`: one look without a terminal, and the full screen with its keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from faultbridge.cli.commands.fleet.top_screen import Place, Table, TopScreen, order_line, read_table
from faultbridge.cli.render.output import OutputFormat
from faultbridge.cli.stack.locate import Target
from faultbridge.cli.stack.session import Session
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from tests.builders import KEY
from tests.cli.desk import Desk

CLUSTER = ("--cluster", KEY.cluster)


@pytest.fixture
def session(desk: Desk) -> Session:
    return Session(Target(), OutputFormat.TABLE)


def broken(desk: Desk) -> Desk:
    """Break a node and open its case."""
    wire_ingest(desk.world.app).ingest([desk.world.message()])
    wire_react(desk.world.app).run([(KEY.cluster, KEY.node)])
    return desk


def test_one_look_without_a_terminal_lists_what_is_not_healthy_in_all_clusters(desk: Desk) -> None:
    broken(desk)("cluster", "add", "train-b")
    ran = desk("top")
    assert ran.code == 0
    assert "Clusters (2)" in ran.out
    assert KEY.node in ran.out
    assert "Cases (1)" in ran.out
    assert "train-b" not in desk("top", *CLUSTER).out


def test_one_look_as_json_has_every_list(desk: Desk) -> None:
    document = broken(desk).json("top", *CLUSTER, "--once")
    assert [one["node"] for one in document["nodes"]] == [KEY.node]
    assert [one["code"] for one in document["cases"]] == ["xid.79"]
    assert (document["incidents"], document["breakers"]) == ([], [])


def test_each_place_lists_what_opens_the_next_one(desk: Desk, session: Session) -> None:
    broken(desk)
    fleet = read_table(session, Place())
    assert fleet.summary == "0 of 1 nodes healthy in 1 clusters"
    (cluster,) = [row.opens for row in fleet.rows]
    nodes = read_table(session, cluster or Place())
    (node,) = [row.opens for row in nodes.rows]
    assert node == Place(KEY.cluster, KEY.node)
    (case,) = [row.opens for row in read_table(session, node).rows if row.opens]
    shown = read_table(session, case)
    assert ("Node", f"{KEY.cluster}/{KEY.node}") in [row.cells for row in shown.rows]


@pytest.mark.parametrize(
    ("key", "place", "expected"),
    [
        ("acknowledge", Place("c", "n", "c-1"), "ack c-1 --reason ''"),
        ("acknowledge", Place("c", "n"), None),
        ("silence", Place("c", "n"), "silence add --cluster c --node n --until 2h --reason ''"),
        ("silence", Place(), None),
        ("pause", Place("c", "n"), "pause --cluster c --until 2h --reason ''"),
        ("pause", Place(), None),
    ],
)
def test_a_key_proposes_the_command_of_its_order(key: str, place: Place, expected: str | None) -> None:
    assert order_line(key, place) == expected


def test_another_command_uses_the_stack_of_the_screen() -> None:
    assert Target("s", region="r").arguments == ["--stack", "s", "--region", "r"]
    assert Target("s", region="r", context="prod").arguments == ["--context", "prod"]


def drive(session: Session, steps: Callable[[TopScreen, Pilot[None]], Awaitable[None]]) -> None:
    """Run the screen without a terminal, and press keys in it."""

    async def driven() -> None:
        screen = TopScreen(session, None, 3600)
        async with screen.run_test(size=(100, 30)) as pilot:
            await settled(screen, pilot)
            await steps(screen, pilot)

    asyncio.run(driven())


async def settled(screen: TopScreen, pilot: Pilot[None]) -> None:
    await screen.workers.wait_for_complete()
    await pilot.pause()


def rows(screen: TopScreen) -> list[str]:
    table = screen.query_one(DataTable)
    return [" ".join(map(str, table.get_row_at(at))) for at in range(table.row_count)]


def test_enter_goes_from_the_fleet_to_a_case_and_escape_goes_back(desk: Desk, session: Session) -> None:
    broken(desk)
    seen: list[str] = []

    async def steps(screen: TopScreen, pilot: Pilot[None]) -> None:
        for key in ("enter", "enter"):
            await pilot.press(key)
            await settled(screen, pilot)
            seen.append(screen.place.title)
        screen.query_one(DataTable).move_cursor(
            row=next(at for at, row in enumerate(rows(screen)) if row[:5] == "Case ")
        )
        await pilot.press("enter")
        await settled(screen, pilot)
        assert screen.place.case is not None
        assert any("xid.79" in row for row in rows(screen))
        for _ in range(5):
            await pilot.press("escape")
            await settled(screen, pilot)
        assert screen.place == Place()

    drive(session, steps)
    assert seen == [f"fleet > {KEY.cluster}", f"fleet > {KEY.cluster} > {KEY.node}"]


def test_the_filter_keeps_the_rows_that_contain_its_text(desk: Desk, session: Session) -> None:
    desk("cluster", "add", "other")

    async def steps(screen: TopScreen, pilot: Pilot[None]) -> None:
        assert len(rows(screen)) == 2
        await pilot.press("slash", *"oth", "enter")
        assert [row.split()[0] for row in rows(screen)] == ["other"]
        await pilot.press("escape")
        assert len(rows(screen)) == 2

    drive(session, steps)


def test_an_order_runs_only_after_its_command_was_confirmed(desk: Desk, session: Session) -> None:
    def is_paused() -> bool:
        return bool(desk.json("cluster", "show", KEY.cluster)["paused"])

    async def steps(screen: TopScreen, pilot: Pilot[None]) -> None:
        await pilot.press("p")
        line = screen.query_one(Input)
        assert line.value.startswith(f"pause --cluster {KEY.cluster}")
        await pilot.press("escape")
        await settled(screen, pilot)
        assert not is_paused()
        await pilot.press("p")
        line.value = f"pause --cluster {KEY.cluster}"
        await pilot.press("enter")
        await settled(screen, pilot)
        assert is_paused()
        await pilot.press("question_mark")

    drive(session, steps)


def test_a_terminal_escape_in_a_record_has_no_effect_and_a_failed_read_is_named(desk: Desk, session: Session) -> None:
    async def steps(screen: TopScreen, pilot: Pilot[None]) -> None:
        screen.show(screen.place, Table(("A",), (), "x\x1b[2J"), "throttled")
        await pilot.pause()
        text = str(screen.query_one("#summary", Static).render())
        assert "\x1b" not in text
        assert "not read: throttled" in text
        assert screen.session.place in text

    drive(session, steps)
