"""What an operator reads on 80 columns: complete entries, commands to copy, and the cluster of each row."""

from __future__ import annotations

import re
import sys

import pytest

from faultbridge.cli.render.live_output import LiveTable
from tests.builders import KEY
from tests.cli.desk import Desk
from tests.cli.test_orders import APPROVAL_POLICY, case_for_approval

CLUSTER, NODE = KEY
STYLE = re.compile(r"\x1b\[[0-9;]*m")
WHAT = "release_instance done (attempt 1, i-0123456789abcdef0 -> i-0123456789abcdef1)"
WHY = "admitted: no active condition needs a repair; the node is only verified"
COLUMNS = {"TIME": lambda one: one["time"], "WHAT": lambda one: one["what"], "WHY": lambda one: one["why"]}


def use_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard output be a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in STYLE.sub("", text).splitlines()]


def words_of(rows: list[str], start: int, end: int | None = None) -> str:
    return " ".join(" ".join(row[start:end].strip() for row in rows).split())


def test_an_entry_that_is_recorded_is_complete_on_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    LiveTable(COLUMNS, (14, 46), terminal=lambda: 80).add({"time": "11-22 19:50:12", "what": WHAT, "why": WHY})
    heading, *rows = lines(capsys.readouterr().out)
    assert max(map(len, rows)) <= 80
    what, why = heading.index("WHAT"), heading.index("WHY")
    assert words_of(rows, what, why) == WHAT
    assert words_of(rows, why) == WHY


@pytest.mark.parametrize("command", ["case watch CASE", "timeline --cluster C --follow"])
def test_watch_and_follow_print_complete_entries(desk: Desk, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    use_terminal(monkeypatch)
    case = case_for_approval(desk)
    desk.json("case", "deny", case, "--reason", "this node runs the most important job of the whole cluster until noon")

    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("faultbridge.cli.commands.records.timeline._wait", interrupted)
    ran = desk(*command.replace("CASE", case).replace(" C ", f" {CLUSTER} ").split())
    printed = lines(ran.out)
    assert max(map(len, printed)) <= 80
    assert "..." not in ran.out
    assert "denied: this node runs the most important job of the whole cluster until noon" in words_of(
        printed, printed[0].index("WHY")
    )


def test_wide_prints_each_entry_on_one_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    case = case_for_approval(desk)
    desk.json("case", "deny", case, "--reason", "x" * 80)
    assert "denied: " + "x" * 80 in desk("case", "watch", case, "--wide").out


def test_a_timeline_keeps_the_reasons(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    case_for_approval(desk)
    ran = desk("timeline", "--cluster", CLUSTER)
    assert "WHY" in ran.out
    assert ran.err == ""
    assert max(map(len, lines(ran.out))) <= 80


def test_stuck_prints_each_command_on_a_line_of_its_own(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    case = case_for_approval(desk)
    printed = lines(desk("stuck").out)
    assert printed[0].startswith(f"{CLUSTER}/{NODE} is quarantined: replace_node requires approval by 2026")
    assert printed[1:] == [f"    faultbridge case approve {case} --repair-action replace_node"]


def test_a_list_over_several_clusters_names_the_cluster_of_each_row(desk: Desk) -> None:
    case_for_approval(desk)
    for arguments in (("case", "list"), ("stuck",)):
        assert "CLUSTER" not in desk(*arguments).out
    desk.json("cluster", "add", "train-b")
    for arguments in (("case", "list"), ("stuck",)):
        heading, row = desk(*arguments).out.splitlines()
        assert heading.index("CLUSTER") == row.index(CLUSTER)
        assert "CLUSTER" not in desk(*arguments, "--cluster", CLUSTER).out.splitlines()[0]


def test_policy_check_prints_what_the_file_sets_with_its_origin(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    ran = desk("policy", "check", "-", given=APPROVAL_POLICY)
    printed = lines(ran.out)
    assert printed[0].split() == ["RULE", "FIELD", "ORIGIN", "VALUE"]
    assert {line.split()[2] for line in printed[1:]} == {"file"}
    assert "more values are defaults; --all prints them" in ran.err
    everything = lines(desk("policy", "check", "-", "--all", given=APPROVAL_POLICY).out)
    assert "default" in {line.split()[2] for line in everything[1:] if len(line.split()) > 2}
    assert max(map(len, everything)) <= 80
    defaults = desk.json("policy", "check", "-", given=APPROVAL_POLICY)
    assert {one["origin"] for one in defaults} == {"file", "default"}


def test_audit_explains_records_that_it_does_not_compare(desk: Desk) -> None:
    assert "Not compared   -" in desk("audit", "--since", "1h").out
    desk.receipts.write({"kind": "outcome", "records": {"r-1": "recorded"}})
    assert "Not compared   1 received without a receipt of their sender" in desk("audit", "--since", "1h").out
    assert "are not compared" in " ".join(desk("audit", "--help").out.split())


@pytest.mark.parametrize(
    ("arguments", "given"),
    [(("mapping", "put", "-"), "{}"), (("cluster", "set", CLUSTER, "--mode", "observe"), "")],
)
def test_a_changed_setting_names_the_time_from_which_it_applies(
    desk: Desk, arguments: tuple[str, ...], given: str
) -> None:
    assert desk.json(*arguments, given=given)["applies_at"] == "2026-02-03T12:00:15.000Z"
    assert "Applies" in desk(*arguments, given=given).out
