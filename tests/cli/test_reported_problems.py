"""Problems that new users reported: each stays fixed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from faultbridge.cli.app import run
from faultbridge.cli.stack import locate
from faultbridge.cli.stack.locate import Target
from faultbridge.decode.data.policies import default_document
from faultbridge.model.enums import Resolution
from faultbridge.model.errors import Misconfigured
from faultbridge.model.values import replace
from tests.builders import KEY
from tests.cli.builders import Embedded, Terminal, successful_result
from tests.cli.desk import OPERATOR, Desk
from tests.cli.orders import case_for_approval
from tests.world import XID_79

CLUSTER, NODE = KEY
ROW_REMAP = """<?xml version="1.0" ?>
<nvidia_smi_log><timestamp>Tue Feb  3 12:00:00 2026</timestamp><gpu id="00000000:C1:00.0">
<remapped_rows><remapped_row_failure>Yes</remapped_row_failure></remapped_rows></gpu></nvidia_smi_log>"""


def test_a_hint_names_the_complete_command(desk: Desk) -> None:
    for arguments in (("case", "list", "--bogus"), ("node", "show"), ("timeline", "--cluster", CLUSTER, "--type", "x")):
        ran = desk(*arguments)
        path = " ".join(one for one in arguments[:2] if not one.startswith("-"))
        assert (ran.code, f"(see `faultbridge {path} --help`)" in ran.err) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [("case", "list", "--status", "bogus"), ("cluster", "set", "x", "--mode", "dry"), ("policy", "check", "-")],
)
def test_a_message_has_no_words_of_a_library(desk: Desk, arguments: tuple[str, ...]) -> None:
    ran = desk(*arguments, given="rules: [{name: a, repair_actions: [reboot_node, verify]}]")
    assert ran.code in {1, 2}
    assert "Value error" not in ran.err + ran.out


def test_a_future_time_is_explained_as_a_future_time(desk: Desk) -> None:
    ran = desk("node", "ignore", NODE, "--cluster", CLUSTER, "--until", "4parsecs")
    assert "not a time: '4parsecs'; RFC 3339, or a duration from now" in ran.err
    assert " age" not in ran.err


def test_one_rule_file_is_tested(desk: Desk) -> None:
    (result,) = desk.json("rule", "test", "rules/page-on-fatal.yaml")
    assert (result["rule"], result["problems"]) == ("page-on-fatal", [])


def test_a_cluster_in_dry_run_is_not_said_to_be_repaired(desk: Desk) -> None:
    ran = desk("cluster", "set", CLUSTER, "--mode", "dry_run", "--repair-owner", "faultbridge")
    assert "planned repairs are recorded, and none is done" in ran.err
    assert "repairs are enabled" in desk("cluster", "set", CLUSTER, "--mode", "act").err


def test_the_packaged_policy_is_shown_by_its_version(desk: Desk) -> None:
    version = default_document()["version"]
    assert desk("policy", "show").out.startswith(f"# policy {version}, part of Faultbridge\n")
    assert desk("policy", "show", version).out == desk("policy", "show").out
    assert desk("policy", "show", "0123456789ab").code == 2


def test_a_cluster_can_name_the_packaged_policy(desk: Desk) -> None:
    desk.json("cluster", "set", CLUSTER, "--policy", default_document()["version"])
    desk.json("send", "--source", "kernel-log", "--cluster", CLUSTER, "--node", NODE, given=XID_79)
    desk.run_ingest()
    assert desk.json("case", "list")[0]["policy"] == default_document()["version"]


def test_a_stack_that_is_not_up_is_named_with_those_that_are(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_stack(_clients: object, stack: str) -> dict[str, str]:
        raise Misconfigured(f"no stack {stack}")

    for name in [one for one in os.environ if one.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(locate, "embedded_stack", lambda _stack: None)
    monkeypatch.setattr("faultbridge.adapters.aws.stack.stack_outputs", no_stack)
    monkeypatch.setattr("faultbridge.local.stack_names", lambda: ["faultbridge", "second"])
    with pytest.raises(Misconfigured, match="embedded stack not up: third; up: faultbridge, second"):
        locate.find_settings(Target("third"), lambda: None, lambda _notice: None)  # type: ignore[arg-type]


def test_the_rejected_records_of_a_cluster_include_those_sent_before_it_was_registered(desk: Desk) -> None:
    for cluster in ("train-z", "other"):
        desk.json("send", "--source", "kernel-log", "--cluster", cluster, "--node", NODE, given=XID_79)
    desk.run_ingest()
    assert [one["cluster"] for one in desk.json("reject", "list", "--cluster", "train-z")] == ["train-z"]
    desk.json("cluster", "add", "train-z")
    (listed,) = desk.json("reject", "list", "--cluster", "train-z")
    assert listed["reason"] == "unknown_cluster"
    assert desk.json("reject", "list", "--cluster", CLUSTER) == []
    assert len(desk.json("reject", "list", "--cluster", "-")) == 2


def test_a_queued_case_lists_all_its_phases_and_their_sum_is_its_age(desk: Desk) -> None:
    case = case_for_approval(desk)
    desk.world.ports.clock.advance(90)
    shown = desk.json("case", "show", case)
    assert shown["phases"]["queued"] == 90_000
    assert sum(shown["phases"].values()) >= shown["age_ms"] == 90_000


def test_the_operator_of_an_approval_is_in_the_table(desk: Desk) -> None:
    case = case_for_approval(desk)
    assert "answer by 2026" in desk("case", "show", case).out
    assert f"approved by {OPERATOR} (attempt 1)" in desk("case", "approve", case, "--reason", "seen").out


def test_pause_prints_what_it_changed(desk: Desk) -> None:
    lines = desk("pause", "--cluster", CLUSTER).out.splitlines()
    assert lines[0].split() == ["Cluster", CLUSTER]
    assert lines[1].split()[0] == "Paused"
    assert "yes" in lines[1]


def test_a_command_that_waits_for_a_terminal_prints_that(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    send = ("send", "--source", "kernel-log", "--cluster", CLUSTER, "--node", NODE)
    for arguments in (("decode",), send, ("policy", "check", "-"), ("schema", "validate", "-")):
        monkeypatch.setattr(sys, "stdin", Terminal(XID_79))
        desk._capture.readouterr()
        run(arguments)
        assert "reading standard input; end it with Ctrl-D" in desk._capture.readouterr()[1].decode()
    assert "reading standard input" not in desk(*send, given=XID_79).err


def test_an_interrupt_prints_one_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("faultbridge.cli.stack.session.time.sleep", interrupted)
    ran = desk("timeline", "--cluster", CLUSTER, "--follow")
    assert (ran.code, ran.err) == (130, "faultbridge: interrupted (what was already done stays done)\n")


def test_a_demo_without_a_repair_does_not_claim_one() -> None:
    result = successful_result()
    assert result.document()["repaired_in_s"] == 8.5
    not_replaced = [replace(view, case=replace(view.case, resolution=Resolution.RECOVERED)) for view in result.cases]
    assert replace(result, cases=not_replaced).document()["repaired_in_s"] is None


def test_a_fault_is_found_by_its_code_and_shown_with_its_failure_mode(desk: Desk) -> None:
    desk.json("send", "--source", "nvidia-smi-xml", "--cluster", CLUSTER, "--node", NODE, given=ROW_REMAP)
    desk.run_ingest()
    found = desk("timeline", "--cluster", CLUSTER, "--code", "smi.row_remap_failure")
    assert "fatal smi.row_remap_failure (gpu.row_remap_failed) gpu 0000:c1:00" in found.out


def test_send_reports_the_outcome_of_each_record_and_audit_lists_the_stale_ones(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultbridge.cli.stack.session.time.sleep", lambda _seconds: desk.run_ingest())
    arguments = ("send", "--source", "nvidia-smi-xml", "--cluster", CLUSTER, "--node", NODE, "--wait", "5")
    assert "the timeline shows it" in desk(*arguments, given=ROW_REMAP).out
    older = ROW_REMAP.replace("12:00:00", "11:50:00")
    (outcome,) = desk.json(*arguments, given=older)["outcomes"]
    assert outcome["outcome"] == "stale"
    assert desk.json("audit", "--since", "1h")["stale_ids"] == [outcome["record_id"]]
    rejected = desk(*arguments, given="<oops")
    assert (rejected.code, "reject show" in rejected.out) == (1, True)


def test_send_without_an_outcome_in_time_exits_with_75(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.cli.stack.session.time.sleep", lambda _seconds: None)
    ran = desk("send", "--source", "kernel-log", "--cluster", CLUSTER, "--node", NODE, "--wait", "1", given=XID_79)
    assert (ran.code, "not processed yet" in ran.out) == (75, True)


def test_the_variables_of_the_embedded_stack_select_it(monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = Embedded()
    monkeypatch.setattr(locate, "embedded_stack", lambda _stack: embedded)
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in embedded.environment.items():
        monkeypatch.setenv(name, value)
    assert locate.chosen_embedded_stack(Target()) is embedded
    assert locate.chosen_embedded_stack(Target(region="eu-west-1")) is None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    assert locate.chosen_embedded_stack(Target()) is None


@pytest.mark.parametrize(
    "command",
    [
        "rule test",
        "schema validate",
        "policy check",
        "mapping check",
        "decode",
        "explain",
        "collect kubernetes --config",
    ],
)
def test_a_binary_file_is_named_without_the_text_of_a_codec(desk: Desk, tmp_path: Path, command: str) -> None:
    file = tmp_path / "binary"
    file.write_bytes(b"\x7fELF\x02\x01\x01\x00\xd0\x00" * 9)
    ran = desk(*command.split(), str(file))
    assert ran.code in {2, 65}
    assert "codec" not in ran.err
    assert " text" in ran.err
    assert str(file) in ran.err
