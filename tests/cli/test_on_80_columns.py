"""What an operator reads on 80 columns: complete entries, commands to copy, and the cluster of each row."""

from __future__ import annotations

import re
import sys

import pytest

from faultbridge.cli.render.output import LiveTable, OutputFormat, show, wrapped
from tests.builders import KEY
from tests.cli.desk import Desk
from tests.cli.orders import APPROVAL_POLICY, case_for_approval

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

    monkeypatch.setattr("faultbridge.cli.stack.session.time.sleep", interrupted)
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
    reason = "Rule approve-replace requires that an operator approves this repair first: replace the node."
    assert printed[0] == f"{CLUSTER}/{NODE} is quarantined: {reason}"
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


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:c1:00): 119, pid=1234, name=python, Timeout waiting for RPC from GSP.",
    ],
)
def test_decode_keeps_the_message(desk: Desk, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    use_terminal(monkeypatch)
    ran = desk("decode", "--source", "kernel-log", given=text)
    heading, *rows = lines(ran.out)
    assert max(map(len, rows)) <= 80
    what, severity, message = (heading.index(title) for title in ("WHAT", "SEVERITY", "MESSAGE"))
    assert words_of(rows, what, severity).endswith("gpu 0000:c1:00")
    assert words_of(rows, message, 80).startswith(("GPU has fallen off the bus.", "Timeout waiting for RPC"))


def test_decode_marks_the_end_of_a_fault(desk: Desk) -> None:
    clear = '{"kind": "clear", "code": "net.link_down", "message": "up", "component": {"type": "nic", "name": "ib0"}}'
    assert "net.link_down nic ib0 cleared" in desk("decode", "--source", "faultbridge", given=clear).out


def test_one_document_and_every_message_fit_80_columns(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    case_for_approval(desk)
    for arguments in (
        ("node", "show", NODE, "--cluster", CLUSTER),
        ("catalog", "xid", "79"),
        ("catalog", "xid.99999"),
        ("policy", "put", "-"),
        ("audit", "--since", "1h"),
    ):
        ran = desk(*arguments, given=APPROVAL_POLICY)
        assert [one for one in lines(ran.out) + lines(ran.err) if len(one) > 80 and "(see `" not in one] == []
    folded, complete = (desk("catalog", "xid", "79", *wide).out for wide in ((), ("--wide",)))
    assert folded.split() == complete.split()
    assert max(map(len, complete.splitlines())) > 80


def test_a_command_in_a_message_stays_on_one_line() -> None:
    text = f"{'word ' * 12}`faultbridge case show c-abcdefghijklmnopqrstuvwxyz` shows it"
    assert wrapped(text, 80, 2).split("\n")[1] == "  `faultbridge case show c-abcdefghijklmnopqrstuvwxyz` shows it"
    assert wrapped(text, None, 2) == text


def test_an_id_in_a_column_of_text_is_broken_only_where_the_words_do_not_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_terminal(monkeypatch)
    event = "0b8e1c9a-51c7-5a39-9d4e-2f6f6f0f7d11"
    row = {"time": "11-22 19:50:12", "what": "a fault of a GPU that was reported " * 2, "why": f"caused by {event}"}
    show([row], COLUMNS, OutputFormat.TABLE)
    assert event in capsys.readouterr().out


def test_audit_explains_records_that_it_does_not_compare(desk: Desk) -> None:
    assert "Not compared   -" in desk("audit", "--since", "1h").out
    desk.receipts.write({"kind": "outcomes", "records": {"recorded": "r-1"}})
    assert "Not compared   1 received without a receipt of their sender" in desk("audit", "--since", "1h").out
    assert "are not compared" in " ".join(desk("audit", "--help").out.split())


@pytest.mark.parametrize(
    ("arguments", "given"),
    [(("mapping", "put", "-"), "{}"), (("cluster", "set", CLUSTER, "--expected", "9"), "")],
)
def test_a_changed_setting_names_the_time_from_which_it_applies(
    desk: Desk, arguments: tuple[str, ...], given: str
) -> None:
    ran = desk(*arguments, given=given)
    assert "pplies to every fault from 2026-02-03 12:00:15 UTC on" in " ".join((ran.out + ran.err).split())
    assert desk.json(*arguments, given=given)["applies_at"] == "2026-02-03T12:00:15.000Z"
