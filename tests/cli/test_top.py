"""`faultbridge top`: one look at a cluster, drawn again after changes, within the size of the terminal."""

from __future__ import annotations

import io
import os
import pty
from datetime import timedelta

import pytest
from rich.console import Console

from faultbridge.cli.commands.fleet.top import REREAD_AFTER, ClusterReader, screen_of
from faultbridge.cli.render.output import OutputFormat
from faultbridge.cli.render.tables import draw, quit_key, run_screen
from faultbridge.cli.stack.locate import Target
from faultbridge.cli.stack.session import Session
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from tests.builders import KEY
from tests.cli.desk import Desk

CLUSTER = ("--cluster", KEY.cluster)


def broken(desk: Desk) -> Desk:
    """Break a node and open its case."""
    wire_ingest(desk.world.app).ingest([desk.world.message()])
    wire_react(desk.world.app).run([(KEY.cluster, KEY.node)])
    return desk


@pytest.fixture
def session(desk: Desk) -> Session:
    return Session(Target(), OutputFormat.TABLE)


def drawn(screen, width: int = 80, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(draw(screen, width, height))
    return console.file.getvalue().splitlines()


def test_one_look_without_a_terminal_lists_what_is_not_healthy(desk: Desk) -> None:
    ran = broken(desk)("top", *CLUSTER)
    assert ran.code == 0
    assert KEY.node in ran.out
    assert "xid.79" in ran.out
    assert "Cases (1)" in ran.out


def test_one_look_as_json_has_every_list(desk: Desk) -> None:
    document = broken(desk).json("top", *CLUSTER, "--once")
    assert [one["node"] for one in document["nodes"]] == [KEY.node]
    assert [one["code"] for one in document["cases"]] == ["xid.79"]
    assert (document["incidents"], document["breakers"]) == ([], [])


def test_a_healthy_cluster_lists_no_node(desk: Desk) -> None:
    assert desk.json("top", *CLUSTER)["nodes"] == []


def test_an_unknown_cluster_is_wrong_usage(desk: Desk) -> None:
    assert desk("top", "--cluster", "nowhere").code == 2


def test_the_lists_are_read_again_only_after_a_change_while_no_case_is_live(desk: Desk, session: Session) -> None:
    reader = ClusterReader(session, KEY.cluster)
    assert reader.changed() is not None
    assert reader.changed() is None
    broken(desk)
    assert reader.changed() is not None
    assert reader.changed() is not None, "a live case changes without its cluster"


def test_the_lists_are_read_again_after_some_time_without_a_change(desk: Desk, session: Session) -> None:
    reader = ClusterReader(session, KEY.cluster)
    reader.changed()
    desk.world.ports.clock.advance(REREAD_AFTER - timedelta(seconds=1))
    assert reader.changed() is None
    desk.world.ports.clock.advance(timedelta(seconds=1))
    assert reader.changed() is not None


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(desk: Desk, session: Session, width: int) -> None:
    lines = drawn(screen_of(ClusterReader(session, KEY.cluster).read(), session.now()), width)
    assert all(len(line) <= width for line in lines)
    broken(desk)
    lines = drawn(screen_of(ClusterReader(session, KEY.cluster).read(), session.now()), width)
    assert all(len(line) <= width for line in lines)
    assert any(KEY.node in line and "quarantined" in line for line in lines)


@pytest.mark.parametrize("height", [24, 50])
def test_a_long_list_ends_with_the_number_of_the_rows_left_out(height: int) -> None:
    nodes = [{"name": f"n-{number}"} for number in range(500)]
    columns = {"NODE": lambda one: one["name"]}
    lines = drawn(("c", [("Nodes", nodes, columns), ("Cases", nodes, columns)]), 80, height)
    assert len(lines) <= height
    assert sum("more" in line for line in lines) == 2
    assert "Nodes (500)" in lines


def test_a_terminal_escape_in_a_record_is_shown_and_has_no_effect() -> None:
    assert "\x1b" not in "".join(drawn(("c\x1b[2J", [("N", [{"a": "x\x1b[2J"}], {"A": lambda one: one["a"]})])))


def console() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80, height=24)


def test_the_screen_is_drawn_until_the_quit_key() -> None:
    looks, answers = [], iter([False, False, True])
    run_screen(lambda: looks.append(1) or ("c", []), lambda: next(answers), console())
    assert len(looks) == 3


def test_an_interrupt_ends_the_screen_and_leaves_the_full_screen() -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    shown = console()
    run_screen(lambda: ("c", []), interrupt, shown)
    assert shown.file.getvalue().count("\x1b[?1049h") == shown.file.getvalue().count("\x1b[?1049l") == 1


def test_the_end_of_an_input_that_is_no_terminal_does_not_end_the_screen() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    try:
        with quit_key(0.01, reading) as wait_for_quit:
            assert [wait_for_quit(), wait_for_quit()] == [False, False]
    finally:
        os.close(reading)


@pytest.mark.parametrize(("typed", "quits"), [(b"q", True), (b"Q", True), (b"x", False), (b"", False)])
def test_only_q_ends_it_and_the_terminal_is_restored(typed: bytes, quits: bool) -> None:
    import termios

    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        with quit_key(0.01, slave) as wait_for_quit:
            os.write(master, typed)
            assert wait_for_quit() is quits
        assert termios.tcgetattr(slave) == before
    finally:
        os.close(master)
        os.close(slave)
